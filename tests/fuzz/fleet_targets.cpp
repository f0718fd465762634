// Files that let a machine into a run: its keys, and the list of those who may take part; and what
// processes send each other.
#include <ATen/ATen.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "averaging/wire.h"
#include "drivers/zmq/keys.h"
#include "drivers/zmq/link.h"
#include "fleet/allow_list.h"
#include "fleet/session_order.h"
#include "target.h"

namespace leeway::fuzz {
namespace {

constexpr std::string_view kList =
    "# name   public key                                 role\n"
    "berlin   Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\n"
    "paris    rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7   # a remark\n";

std::vector<std::string> key_files(const Place&) {
  return {
      "public = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n"
      "secret = \"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\"\n"};
}

void read_key_file(const Place& place, std::string_view bytes) {
  const Path file = place.scratch / "machine.key";
  must_write(file, bytes);
  LEEWAY_CHECK(::chmod(file.c_str(), 0600) == 0, "our own file");
  sound(zmq::read_key_pair(file));
  sound(zmq::read_public_key(file));
}

std::vector<std::string> lists(const Place&) { return {std::string(kList)}; }

void read_list(const Place&, std::string_view bytes) {
  sound(AllowList::parse(bytes, "machines.txt"));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Frames of one parcel, one after another.
std::vector<std::string> frames(const Place&) {
  zmq::Link link({.self = {1}, .generation = 7, .fragment_bytes = 100});
  link.put({.kind = Parcel::Kind::kFleet,
            .traffic = TrafficClass::kPipeline,
            .session = 1,
            .bytes = std::vector<std::byte>(250)});
  const zmq::OutgoingFrame hello = link.greeting(zmq::FrameKind::kHello, {1});
  std::string all = text_of(std::as_bytes(std::span(&hello.header, 1)));
  for (int fragment = 0; fragment < 3; ++fragment) {
    const auto frame = link.next({2});
    all += text_of(std::as_bytes(std::span(&frame->header, 1))) + text_of(frame->fragment());
  }
  return {all};
}

// A hash protects a frame from damage, not from malice: the bytes are also taken as if they had
// been sealed so.
void read_frames(const Place&, std::string_view bytes) {
  zmq::Link link({.self = {0}, .generation = 8});
  std::span<const std::byte> rest = std::as_bytes(std::span(bytes));
  while (rest.size() >= sizeof(zmq::FrameHeader)) {
    zmq::FrameHeader header;
    std::memcpy(&header, rest.data(), sizeof header);
    rest = rest.subspan(sizeof header);
    const auto fragment = rest.first(std::min<size_t>(rest.size(), header.length));
    rest = rest.subspan(fragment.size());
    sound(zmq::open_frame(std::as_bytes(std::span(&header, 1)), fragment));
    seal(header, fragment);
    const auto opened = zmq::open_frame(std::as_bytes(std::span(&header, 1)), fragment);
    if (!sound(opened) || !link.is_mine(*opened)) continue;
    sound(link.take(*opened, fragment, {3}));
    static_cast<void>(link.next({4}));
  }
}

std::vector<std::string> notes(const Place&) {
  const leeway::Place own = {.worker = {.replica = {1}, .stage = {0}}, .incarnation = 2};
  const Member member = {.id = {3},
                         .name = "berlin",
                         .address = "tcp://192.0.2.1:5555",
                         .key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
                         .places = {own}};
  const SessionOrder order = {.number = 2,
                              .seconds = 1.5,
                              .has_state = true,
                              .last_update = 100,
                              .run = 12,
                              .recipe = 13,
                              .starts = {{.update = 5, .rounds = {{1, 2}, {3}}, .chunks = {{}}}},
                              .places = {own},
                              .directory = {.number = 4, .members = {member}}};
  Note join(NoteKind::kJoin);
  join.add("protocol", kFleetProtocol).add("listens", "tcp://0.0.0.0:5555");
  return {text_of(to_bytes(to_note(order))), text_of(to_bytes(join))};
}

void read_note(const Place&, std::string_view bytes) {
  const Result<Note> note = note_from(std::as_bytes(std::span(bytes)));
  if (!sound(note)) return;
  sound(session_order_from(*note));
  sound(note->whole("protocol"));
  sound(note->text("listens"));
  if (note->facts().contains("directory")) sound(directory_from(note->facts()["directory"]));
}

constexpr int64_t kSteps = 20'000;

// What a message of lowbit carries.
std::vector<std::string> packed_steps(const Place&) {
  std::vector<std::string> seeds;
  for (const double threshold : {0.0, 0.6, 1.6, 9.0}) {
    at::manual_seed(1);
    const at::Tensor blocks = encode(WireFormat::kTernary, at::randn({kSteps}), {}, threshold);
    const at::Tensor packed = pack(WireFormat::kTernary, blocks, kSteps);
    seeds.emplace_back(static_cast<const char*>(packed.const_data_ptr()), packed.nbytes());
  }
  return seeds;
}

void read_packed_steps(const Place&, std::string_view bytes) {
  const at::Tensor packed = at::empty({std::ssize(bytes)}, at::kByte);
  std::ranges::copy(bytes, static_cast<char*>(packed.mutable_data_ptr()));
  if (!is_packed(WireFormat::kTernary, packed, kSteps, at::kFloat)) return;
  const at::Tensor blocks = unpack(WireFormat::kTernary, packed, kSteps);
  LEEWAY_CHECK(is_encoding(WireFormat::kTernary, blocks, kSteps, at::kFloat),
               "what is_packed says");
}

}  // namespace

std::vector<Target> fleet_targets() {
  return {{"key_file", key_files, read_key_file},
          {"allow_list", lists, read_list},
          {"frames", frames, read_frames},
          {"note", notes, read_note},
          {"packed_steps", packed_steps, read_packed_steps}};
}

}  // namespace leeway::fuzz
