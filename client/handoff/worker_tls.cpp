#include "client/handoff/worker_tls.hpp"

namespace peercache::client {

result<worker_tls> worker_tls::open(const std::shared_ptr<net::tls_context>& own) {
  worker_tls made;
  if (!own)
    return made;
  made.context_ = own->among_engines();
  auto handshakes = net::tls_handshakes::create(made.context_);
  if (!handshakes)
    return handshakes.error();
  made.handshakes_ = std::move(*handshakes);
  return made;
}

std::vector<std::function<void()>> worker_tls::bodies() const {
  if (!handshakes_)
    return {};
  return {[work = handshakes_.get()] { work->run(); }};
}

void worker_tls::stop() const noexcept {
  if (handshakes_)
    handshakes_->stop();
}

} // namespace peercache::client
