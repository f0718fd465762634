#include "fleet/uploads.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "checkpoint/shard.h"
#include "worker/state_transfer.h"

namespace leeway {
namespace {

Result<ShardStore::Stored> store_file(const Path& file, WorkerId worker, ShardStore& store) {
  LEEWAY_ASSIGN(const Shard shard, read_shard(file));
  if (shard.worker != worker) return Error{"the file is of another worker than it says"};
  return store.store({.worker = shard.worker,
                      .update = shard.update,
                      .weights = shard.weights,
                      .optimizer = shard.optimizer,
                      .rounds = shard.rounds,
                      .chunks = shard.chunks,
                      .sent = shard.sent});
}

Note answer_to(NoteKind kind, int64_t upload) {
  Note note(kind);
  note.add("upload", upload);
  return note;
}

}  // namespace

Uploads::Uploads(Path folder, ShardStore& store, Answer answer)
    : folder_(std::move(folder)),
      store_(store),
      answer_(std::move(answer)),
      background_([](const std::exception_ptr&) {}) {}

Uploads::~Uploads() {
  background_.finish();
  static_cast<void>(remove_tree(folder_));
}

void Uploads::forget(ProcessId from) {
  const auto found = uploads_.find(from);
  if (found == uploads_.end()) return;
  std::error_code ignored;
  std::filesystem::remove(found->second.file, ignored);
  uploads_.erase(found);
}

void Uploads::take(ProcessId from, const Note& note,
                   const std::function<bool(WorkerId)>& may_save) {
  const auto whole = [&](const char* name) {
    const Result<int64_t> value = note.whole(name);
    return value.ok() ? *value : int64_t{-1};
  };
  const int64_t number = whole("upload");
  const int64_t part = whole("part");
  const int64_t parts = whole("parts");
  const auto fail = [&](const std::string& why) {
    answer_(from, answer_to(NoteKind::kShardStored, number).add("error", why));
    forget(from);
  };
  if (part == 0) {
    forget(from);
    const WorkerId worker = {.replica = {whole("replica")}, .stage = {whole("stage")}};
    if (!may_save(worker)) return fail("this process has no such place");
    if (const Status made = make_folder(folder_); !made.ok()) return fail(made.error().message);
    const Path file = folder_ / fmt::format("{}-{}", from.value, number);
    uploads_[from] = {.number = number, .parts = 0, .file = file, .worker = worker};
  }
  const auto found = uploads_.find(from);
  if (found == uploads_.end() || found->second.number != number) return;  // given up before
  Upload& upload = found->second;
  const bool fits =
      part == upload.parts && part < parts && std::ssize(note.body()) <= kStatePartBytes;
  if (!fits) return fail("a part that is not the next one");
  std::ofstream out(upload.file, std::ios::binary | std::ios::app);
  out.write(reinterpret_cast<const char*>(note.body().data()), std::ssize(note.body()));
  out.close();
  if (!out) return fail(fmt::format("cannot write {}; is the disk full?", upload.file.string()));
  ++upload.parts;
  answer_(from, answer_to(NoteKind::kShardTaken, number).add("parts", upload.parts));
  if (upload.parts < parts) return;
  background_.run([this, from, complete = upload] { store(from, complete); });
  uploads_.erase(found);
}

void Uploads::store(ProcessId from, const Upload& upload) {
  const Result<ShardStore::Stored> stored = store_file(upload.file, upload.worker, store_);
  std::error_code ignored;
  std::filesystem::remove(upload.file, ignored);
  Note note = answer_to(NoteKind::kShardStored, upload.number);
  if (!stored.ok()) return answer_(from, note.add("error", stored.error().message));
  note.add("file", stored->file)
      .add("size", static_cast<int64_t>(stored->size))
      .add("hash", hash_hex(stored->hash));
  answer_(from, note);
}

}  // namespace leeway
