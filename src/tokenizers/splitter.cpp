#include "tokenizers/splitter.h"

namespace leeway {
namespace {

class WholeCursor final : public PieceCursor {
 public:
  explicit WholeCursor(std::string_view text) : rest_(text) {}
  std::string_view next() override {
    const std::string_view piece = rest_;
    rest_ = {};
    return piece;
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::unique_ptr<PieceCursor> WholeSplitter::walk(std::string_view text) const {
  return std::make_unique<WholeCursor>(text);
}

}  // namespace leeway
