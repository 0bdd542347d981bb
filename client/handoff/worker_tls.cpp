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

handoff::link_options worker_tls::links_at(const worker_options& options) const {
  handoff::link_options links;
  links.host = options.host;
  links.port = options.port;
  links.insecure_cluster = options.insecure_cluster;
  links.tls = context_;
  links.handshakes = handshakes_.get();
  return links;
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
