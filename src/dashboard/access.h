// Who may look at a dashboard. Pure functions of what a request says.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

// "localhost", "127.0.0.1" and all of 127.x.y.z, "::1": only this machine reaches these.
bool is_loopback(std::string_view host);

// Whether a request's Host header names this machine or what the server was bound to. A page of
// somebody else can make its own name point here and have the reader's browser ask; it cannot make
// the browser say another name. Bound to every address, every name is good: the token protects.
bool host_allowed(std::string_view header, std::string_view bound);

// Takes as long wherever the two differ, so that an answer's time says nothing about the token.
bool same_token(std::string_view given, std::string_view expected);

// "Bearer abc" -> "abc"; anything else: empty.
std::string_view bearer_token(std::string_view authorization);

// The first line of a file, fit to stand in an address.
Result<std::string> read_token(const Path& file);

}  // namespace leeway
