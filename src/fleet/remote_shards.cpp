#include "fleet/remote_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/hash.h"
#include "checkpoint/shard.h"
#include "run/shard_folder.h"
#include "worker/state_transfer.h"

namespace leeway {
namespace {

constexpr int kTriesMax = 300;  // one a second
constexpr int64_t kAhead = 4;   // parts that the host has not taken yet

Path file_of(const Path& folder, WorkerId worker, int64_t update) {
  return folder / fmt::format("update-{:08}.{}", update, shard_name(worker));
}

std::vector<Path> files_of(const Path& folder, WorkerId worker) {
  std::vector<Path> files;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    if (file.path().filename().string().ends_with("." + shard_name(worker))) {
      files.push_back(file.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<ShardStore::Stored> RemoteShards::store(const StageState& state) {
  const Path file = file_of(folder_, state.worker, state.update);
  if (!waits_for_host(file)) {
    Status written = make_folder(folder_);
    if (written.ok()) written = write_shard(file, shard_of(state));
    if (!written.ok()) return Error{fmt::format("{} on {}", written.error().message, name_)};
  }
  int64_t upload = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!host_heard_) {
      unsent_.insert(file);
      return Error{"the coordinator is silent"};
    }
    upload = ++upload_;
    taken_ = 0;
    answer_.reset();
  }
  Result<Stored> stored = send(file, state.worker, upload);
  if (stored.ok()) remove_older(state.worker, file.filename().string());
  return stored;
}

Result<ShardStore::Stored> RemoteShards::send(const Path& file, WorkerId worker, int64_t upload) {
  std::ifstream in(file, std::ios::binary);
  std::error_code code;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, code));
  if (!in || code) return file_error("read", file, code.value());
  const int64_t parts = state_parts(size);
  const auto wait_for = [this](const auto& ready) -> Status {
    std::unique_lock lock(mutex_);
    const bool heard = heard_.wait_for(lock, std::chrono::nanoseconds(patience_.count),
                                       [&] { return !given_up_.empty() || answer_ || ready(); });
    if (!given_up_.empty()) return Error{given_up_};
    return heard ? Status() : Status(Error{"the coordinator does not take it"});
  };
  for (int64_t part = 0; part < parts; ++part) {
    Note note(NoteKind::kShardPart);
    note.add("upload", upload)
        .add("part", part)
        .add("parts", parts)
        .add("size", size)
        .add("replica", worker.replica.value)
        .add("stage", worker.stage.value);
    note.body().resize(
        static_cast<size_t>(std::min(kStatePartBytes, size - part * kStatePartBytes)));
    in.read(reinterpret_cast<char*>(note.body().data()),
            static_cast<std::streamsize>(note.body().size()));
    if (!in) return file_error("read", file, EIO);
    LEEWAY_TRY(wait_for([&] { return taken_ + kAhead > part; }));
    if (is_answered()) break;  // there is no use in the rest
    wire_.send(kHost, parcel_of(note, TrafficClass::kAveraging));
  }
  LEEWAY_TRY(wait_for([] { return false; }));
  const std::lock_guard lock(mutex_);
  return *answer_;
}

bool RemoteShards::is_answered() {
  const std::lock_guard lock(mutex_);
  return answer_.has_value();
}

void RemoteShards::hear(const Note& note) {
  const std::lock_guard lock(mutex_);
  const Result<int64_t> upload = note.whole("upload");
  if (!upload.ok() || *upload != upload_) return;
  if (note.kind() == NoteKind::kShardTaken) {
    taken_ = std::max(taken_, note.whole("parts").ok() ? *note.whole("parts") : 0);
  } else if (const Result<std::string> error = note.text("error"); error.ok()) {
    answer_ = Result<Stored>(Error{*error});
  } else if (note.text("file").ok() && note.whole("size").ok() && note.text("hash").ok()) {
    answer_ =
        Result<Stored>(Stored{.file = *note.text("file"),
                              .size = static_cast<uint64_t>(*note.whole("size")),
                              .hash = std::strtoull(note.text("hash")->c_str(), nullptr, 16)});
  }
  heard_.notify_all();
}

bool RemoteShards::wait_to_store(const Error&) {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, std::chrono::seconds(1), [this] { return !given_up_.empty(); });
  // How long a host may be silent is not decided here.
  return given_up_.empty() && (!host_heard_ || ++tries_ < kTriesMax);
}

void RemoteShards::set_host_heard(bool heard) {
  const std::lock_guard lock(mutex_);
  host_heard_ = heard;
  if (heard) unsent_.clear();
}

bool RemoteShards::waits_for_host(const Path& file) {
  const std::lock_guard lock(mutex_);
  return unsent_.contains(file);
}

void RemoteShards::start_over() {
  const std::lock_guard lock(mutex_);
  ++upload_;  // what is said of the earlier one is for nobody
  if (!answer_) answer_ = Result<Stored>(Error{"the coordinator was started again"});
  heard_.notify_all();
}

void RemoteShards::give_up(const std::string& why) {
  const std::lock_guard lock(mutex_);
  given_up_ = why;
  heard_.notify_all();
}

// The two newest stay: the newest may be torn if this machine loses power.
void RemoteShards::remove_older(WorkerId worker, const std::string& newest) const {
  std::vector<Path> files = files_of(folder_, worker);
  std::erase_if(files, [&](const Path& file) { return file.filename().string() > newest; });
  for (size_t at = 0; at + 2 < files.size(); ++at) {
    std::error_code ignored;
    std::filesystem::remove(files[at], ignored);
  }
}

std::shared_ptr<const StageState> RemoteShards::newest_of(WorkerId worker) {
  const std::vector<Path> files = files_of(folder_, worker);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    const Result<Shard> shard = read_shard(*file);
    if (!shard.ok() || shard->worker != worker) continue;
    return std::make_shared<StageState>(StageState{.worker = worker,
                                                   .update = shard->update,
                                                   .weights = shard->weights,
                                                   .optimizer = shard->optimizer,
                                                   .rounds = shard->rounds});
  }
  return nullptr;
}

}  // namespace leeway
