// Who may see a dashboard. Pure functions of the request.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

// "localhost", "127.0.0.1" and all of 127.x.y.z, "::1": only this machine reaches these.
bool is_loopback(std::string_view host);

// Whether a request's Host header names this machine or the address the server is bound to. A
// malicious page can point its own DNS name here and have the reader's browser send requests
// (DNS rebinding), but the browser still sends that name. A server bound to all addresses accepts
// every name: the token protects it.
bool host_allowed(std::string_view header, std::string_view bound);

// Constant-time: response time says nothing about the token.
bool same_token(std::string_view given, std::string_view expected);

// "Bearer abc" -> "abc"; anything else: empty.
std::string_view bearer_token(std::string_view authorization);

// The first line of a file, if it can be part of a URL.
Result<std::string> read_token(const Path& file);

}  // namespace leeway
