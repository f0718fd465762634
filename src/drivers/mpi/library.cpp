#include "drivers/mpi/library.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#ifdef LEEWAY_MPI

#include <mpi.h>

namespace leeway::mpi {
namespace {

// MPI's handles are pointers in some libraries and numbers in others.
// NOLINTBEGIN(bugprone-sizeof-expression): the size of the handle, not of what it may point to
template <class Handle>
uint64_t packed(const Handle& handle) {
  static_assert(sizeof(Handle) <= sizeof(uint64_t));
  uint64_t result = 0;
  std::memcpy(&result, &handle, sizeof handle);
  return result;
}
template <class Handle>
Handle unpacked(uint64_t bits) {
  Handle handle;
  std::memcpy(&handle, &bits, sizeof handle);
  return handle;
}
// NOLINTEND(bugprone-sizeof-expression)

std::string failure(int code, const char* function) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return fmt::format(
      "{} failed ({}); check the machines of this job and the network between them, then resume "
      "the run",
      function, text);
}

void must(int code, const char* function) {
  if (code != MPI_SUCCESS) throw std::runtime_error(failure(code, function));
}

int count_of(size_t bytes) {
  LEEWAY_CHECK(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()),
               "large parcels travel in pieces");
  return static_cast<int>(bytes);
}

}  // namespace

Result<Ranks> initialize() {
  int before = 0;
  MPI_Initialized(&before);
  LEEWAY_CHECK(before == 0, "MPI starts once in a program");
  int provided = MPI_THREAD_SINGLE;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) return Error{failure(code, "MPI_Init_thread")};
  if (provided < MPI_THREAD_FUNNELED) {
    return Error{"this MPI does not support programs with threads; install one that does"};
  }
  Ranks ranks;
  code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(MPI_COMM_WORLD, &ranks.own);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
  if (code != MPI_SUCCESS) return Error{failure(code, "MPI_Comm_rank")};
  return ranks;
}

void finalize() { must(MPI_Finalize(), "MPI_Finalize"); }

void abort_job() {
  MPI_Abort(MPI_COMM_WORLD, 1);
  LEEWAY_UNREACHABLE("MPI_Abort does not return");
}

Communicator::Communicator() {
  MPI_Comm copy = MPI_COMM_NULL;
  must(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  must(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  handle_ = packed(copy);
}

void Communicator::give_back() {
  auto comm = unpacked<MPI_Comm>(handle_);
  must(MPI_Comm_free(&comm), "MPI_Comm_free");
}

Transfer Communicator::send(std::span<const std::byte> bytes, int to, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  must(MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, to, tag,
                 unpacked<MPI_Comm>(handle_), &request),
       "MPI_Isend");
  return {.handle = packed(request)};
}

std::optional<Arrival> Communicator::arrived(int tag) {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status = {};
  must(MPI_Improbe(MPI_ANY_SOURCE, tag, unpacked<MPI_Comm>(handle_), &found, &message, &status),
       "MPI_Improbe");
  if (found == 0) return std::nullopt;
  int bytes = 0;
  must(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  return Arrival{
      .from = status.MPI_SOURCE, .bytes = static_cast<size_t>(bytes), .handle = packed(message)};
}

Transfer Communicator::receive(const Arrival& arrival, std::span<std::byte> into) {
  LEEWAY_CHECK(into.size() == arrival.bytes, "a message has the size of its place");
  auto message = unpacked<MPI_Message>(arrival.handle);
  MPI_Request request = MPI_REQUEST_NULL;
  must(MPI_Imrecv(into.data(), count_of(into.size()), MPI_BYTE, &message, &request), "MPI_Imrecv");
  return {.handle = packed(request)};
}

bool Communicator::done(Transfer& transfer) {
  auto request = unpacked<MPI_Request>(transfer.handle);
  int flag = 0;
  must(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  transfer.handle = packed(request);
  return flag != 0;
}

}  // namespace leeway::mpi

#else

namespace leeway::mpi {

Result<Ranks> initialize() {
  return usage_error("this build has no MPI; configure with -DLEEWAY_MPI=ON, or use TCP");
}

// Nobody comes this far without MPI.
void finalize() { LEEWAY_UNREACHABLE("no MPI"); }
void abort_job() { LEEWAY_UNREACHABLE("no MPI"); }
Communicator::Communicator() { LEEWAY_UNREACHABLE("no MPI"); }
void Communicator::give_back() { LEEWAY_UNREACHABLE("no MPI"); }
Transfer Communicator::send(std::span<const std::byte>, int, int) { LEEWAY_UNREACHABLE("no MPI"); }
std::optional<Arrival> Communicator::arrived(int) { LEEWAY_UNREACHABLE("no MPI"); }
Transfer Communicator::receive(const Arrival&, std::span<std::byte>) {
  LEEWAY_UNREACHABLE("no MPI");
}
bool Communicator::done(Transfer&) { LEEWAY_UNREACHABLE("no MPI"); }

}  // namespace leeway::mpi

#endif
