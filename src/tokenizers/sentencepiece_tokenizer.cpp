#include "tokenizers/sentencepiece_tokenizer.h"

#ifdef LEEWAY_SENTENCEPIECE

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "tokenizers/saved_tokenizer.h"
#include "tokenizers/unicode.h"

namespace leeway {
namespace {

using sentencepiece::SentencePieceProcessor;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<SentencePieceProcessor> processor, std::string content)
      : processor_(std::move(processor)),
        content_(std::move(content)),
        hash_(hash_text(content_)),
        cuts_(cuts_hold()) {}

  Status encode(std::string_view text, std::vector<TokenId>& ids) const override {
    std::vector<int> found;
    const auto status = processor_->Encode(absl::string_view(text.data(), text.size()), &found);
    // A sound model accepts any text.
    if (!status.ok()) return Error{"the SentencePiece model is damaged: it cannot encode text"};
    ids.insert(ids.end(), found.begin(), found.end());
    return {};
  }

  // An id outside the vocabulary decodes as the unknown piece.
  std::string decode(std::span<const TokenId> ids) const override {
    std::vector<int> known;
    known.reserve(ids.size());
    for (const TokenId id : ids) {
      known.push_back(id < static_cast<TokenId>(processor_->GetPieceSize()) ? static_cast<int>(id)
                                                                            : processor_->unk_id());
    }
    std::string text;
    const auto status = processor_->Decode(known, &text);
    return status.ok() ? text : std::string(kReplacementUtf8);  // fails for a damaged model alone
  }

  int64_t vocabulary() const override { return processor_->GetPieceSize(); }
  std::optional<TokenId> document_marker() const override {
    if (processor_->eos_id() < 0) return std::nullopt;
    return static_cast<TokenId>(processor_->eos_id());
  }
  uint64_t hash() const override { return hash_; }
  std::string_view kind() const override { return "sentencepiece"; }
  Status save(const Path& folder) const override {
    return save_tokenizer(*this, folder, kSavedSentencePiece, content_);
  }

  // Cuts before a single space between letters. The usual normalizer drops the space at the start
  // of the second part and adds its own in front, which gives the space of the whole; and no piece
  // crosses from a word into a space. A model that behaves differently gets no cuts.
  size_t last_safe_cut(std::string_view text) const override {
    if (!cuts_) return 0;
    for (size_t cut = text.size(); cut-- > 1;) {
      if (cut + 1 == text.size()) continue;
      if (text[cut] == ' ' && is_letter(text[cut - 1]) && is_letter(text[cut + 1])) return cut;
    }
    return 0;
  }

 private:
  // Tests the rule, and looks for pieces that would cross a cut.
  bool cuts_hold() const {
    constexpr std::string_view kSpace = "\xE2\x96\x81";  // how a piece writes a space
    for (int id = 0; id < processor_->GetPieceSize(); ++id) {
      const std::string& piece = processor_->IdToPiece(id);
      const size_t space = piece.rfind(kSpace);
      const bool inside = space != std::string::npos && space > 0;
      if (inside && piece.find_first_not_of(kSpace) != std::string::npos) return false;
    }
    constexpr std::array<std::string_view, 4> kParts = {"A", "the cat", "x  y\nend", "a b c"};
    for (const std::string_view first : kParts) {
      for (const std::string_view part : kParts) {
        const std::string second = std::string(" ").append(part);
        std::vector<TokenId> joined;
        std::vector<TokenId> whole;
        if (!encode(first, joined).ok() || !encode(second, joined).ok()) return false;
        if (!encode(std::string(first) + second, whole).ok() || joined != whole) return false;
      }
    }
    return true;
  }

  std::unique_ptr<SentencePieceProcessor> processor_;
  std::string content_;  // the file, kept for save()
  uint64_t hash_;
  bool cuts_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const Path& path) {
  LEEWAY_ASSIGN(std::string content, read_text(path));
  auto processor = std::make_unique<SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(content);
  // The library's own message names a line of its source, which helps nobody here.
  if (!status.ok() || processor->GetPieceSize() == 0) {
    return Error{
        fmt::format("{} is not a SentencePiece model, or a damaged one; name the .model file that "
                    "spm_train wrote, or download it again",
                    path.string())};
  }
  auto tokenizer =
      std::make_unique<SentencePieceTokenizer>(std::move(processor), std::move(content));
  std::vector<TokenId> ids;
  if (!tokenizer->encode("a b", ids).ok()) {
    return Error{
        fmt::format("{} is a damaged SentencePiece model; download it again", path.string())};
  }
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace leeway

#else

namespace leeway {

Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const Path& path) {
  return Error{"this build has no SentencePiece, which " + path.string() +
               " needs: build with -DLEEWAY_SENTENCEPIECE=ON"};
}

}  // namespace leeway

#endif
