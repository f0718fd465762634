// What the keys that are text take.
#pragma once

#include <string_view>

namespace leeway {

bool is_device(std::string_view text);          // auto, cpu, cuda, cuda:N
bool is_tokenizer(std::string_view text);       // bytes, or a kind and where its files are
bool is_listen_address(std::string_view text);  // tcp://HOST:PORT, port 0 to 65535

}  // namespace leeway
