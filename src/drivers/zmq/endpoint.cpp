#include "drivers/zmq/endpoint.h"

#if LEEWAY_ZMQ
#include "drivers/zmq/exchange.h"
#endif

namespace leeway::zmq {

#if LEEWAY_ZMQ
Result<std::unique_ptr<Endpoint>> Endpoint::open(EndpointOptions options) {
  return Exchange::open(std::move(options));
}
#else
Result<std::unique_ptr<Endpoint>> Endpoint::open(EndpointOptions) {
  return Error{"this build has no ZeroMQ; configure with -DLEEWAY_ZMQ=ON"};
}
#endif

}  // namespace leeway::zmq
