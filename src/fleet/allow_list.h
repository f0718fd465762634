// Who may take part in a run of many processes: a text file with a machine on each line.
//
//   # name   public key
//   berlin   Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID
//   paris    rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace leeway {

struct AllowedMachine {
  std::string name;
  std::string key;   // public, in Z85
  int64_t line = 0;  // of the file, from 1
};

class AllowList {
 public:
  static constexpr size_t kBytesMax = 1 << 20;
  static constexpr int64_t kLinesMax = 100'000;

  // All errors are usage errors that name the file, and the line if there is one.
  static Result<AllowList> read(const Path& file);
  static Result<AllowList> parse(std::string_view text, std::string_view source_name);

  const AllowedMachine* find(std::string_view key) const;  // nullptr: not allowed
  const std::vector<AllowedMachine>& machines() const { return machines_; }

 private:
  Status add(AllowedMachine machine, std::string_view source_name);

  std::vector<AllowedMachine> machines_;
  std::map<std::string, size_t, std::less<>> by_key_, by_name_;  // indices
};

}  // namespace leeway
