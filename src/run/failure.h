// What LibTorch or the system has thrown, in words.
#pragma once

#include <exception>

#include "base/result.h"

namespace leeway {

Error failure_of(const std::exception_ptr& thrown);

}  // namespace leeway
