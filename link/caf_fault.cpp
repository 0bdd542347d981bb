#include "link/caf_fault.hpp"

#include <caf/message.hpp>
#include <caf/sec.hpp>

#include <string>

namespace peercache::link {
namespace {

/// The error's own words, if its sender gave some; empty for errors of CAF.
std::string words_in(const caf::error& why) {
  const auto& context = why.context();
  return context.match_elements<std::string>() ? context.get_as<std::string>(0) : std::string{};
}

} // namespace

error fault_of(const caf::error& why) {
  constexpr const char* no_node =
      "what listens there is no control port of a peercache-node, or one that takes other "
      "certificates (tls.*) or users (node.group)";
  auto said = words_in(why);
  if (why == caf::sec::request_timeout || why == caf::sec::connection_timeout)
    return {errc::timed_out, "no answer in time"};
  if (why == caf::sec::invalid_argument)
    return {errc::invalid_argument, said.empty() ? "what was asked is not valid" : said};
  if (why == caf::sec::request_receiver_down)
    return {errc::closed, "the connection broke"};
  if (why == caf::sec::disconnect_during_handshake || why == caf::sec::malformed_basp_message ||
      why == caf::sec::no_actor_published_at_port)
    return {errc::unreachable, no_node};
  if (why == caf::sec::incompatible_versions || why == caf::sec::incompatible_application_ids)
    return said.empty() ? error{errc::unreachable, no_node} : error{errc::incompatible, said};
  if (why == caf::sec::cannot_connect_to_node)
    return {errc::unreachable, said.empty() ? "no connection" : said};
  return {errc::refused, said.empty() ? "it gave no reason; its log may" : said};
}

} // namespace peercache::link
