#include "config/texts.h"

#include <gtest/gtest.h>

#include <string>

namespace leeway {
namespace {

TEST(ListenAddress, IsAHostAndAPort) {
  for (const std::string text :
       {"tcp://*:0", "tcp://*:65535", "tcp://127.0.0.1:5555", "tcp://node-7.example.org:80",
        "tcp://[::1]:9000", "tcp://[fe80::1%eth0]:1", "tcp://[::ffff:10.0.0.1]:1", "tcp://a:1"})
    EXPECT_TRUE(is_listen_address(text)) << text;
}

TEST(ListenAddress, IsNothingElse) {
  for (const std::string text : {"",
                                 "*:0",
                                 "tcp://",
                                 "tcp://*",
                                 "tcp://*:",
                                 "tcp://:5555",
                                 "tcp://*:65536",
                                 "tcp://*:-1",
                                 "tcp://*:+1",
                                 "tcp://*:1x",
                                 "tcp://*:000000",
                                 "tcp://a b:1",
                                 "tcp://a/b:1",
                                 "tcp://**:1",
                                 "tcp://::1:9000",
                                 "tcp://[::1]",
                                 "tcp://[::1:9000",
                                 "tcp://[]:1",
                                 "tcp://[:1",
                                 "tcp://[10.0.0.1]:1",
                                 "udp://*:1",
                                 "ipc://x:1",
                                 "TCP://*:1",
                                 "tcp://*:1\n"})
    EXPECT_FALSE(is_listen_address(text)) << text;
}

TEST(Device, IsTheCpuOrAGpu) {
  for (const std::string text : {"auto", "cpu", "cuda", "cuda:0", "cuda:127"})
    EXPECT_TRUE(is_device(text)) << text;
  for (const std::string text : {"", "gpu", "cuda:", "cuda:x", "cuda:1234", "cpu:0"})
    EXPECT_FALSE(is_device(text)) << text;
}

TEST(Tokenizer, IsBytesOrNamesItsFiles) {
  for (const std::string text : {"bytes", "gpt2:d", "sentencepiece:f", "hf:f"})
    EXPECT_TRUE(is_tokenizer(text)) << text;
  for (const std::string text : {"", "gpt2", "hf:", "bytes:"})
    EXPECT_FALSE(is_tokenizer(text)) << text;
}

}  // namespace
}  // namespace leeway
