#include "actors/serving/lookup_relay_actor.hpp"

#include "actors/link_names.hpp"
#include "common/assert.hpp"

#include <utility>

namespace peercache::actors {

using link::member_question;

namespace {

struct relay_body {
  lookup_relay_actor::pointer self;
  lookup_relay_options options;

  template <class Actor, class... Question>
  void ask(std::uint64_t ticket, const Actor& whom, Question&&... question) {
    self->request(whom, caf::infinite, std::forward<Question>(question)...)
        .then(
            [this, ticket](std::string& body) {
              options.answers->push({ticket, std::move(body)});
            },
            [this, ticket](const caf::error&) {
              options.answers->push({ticket, std::nullopt});
            });
  }

  void withdraw(std::uint64_t ticket, std::string records) {
    self->request(options.directory, caf::infinite, withdraw_atom_v, std::move(records))
        .then(
            [this, ticket](std::uint64_t) {
              options.answers->push({ticket, std::string()});
            },
            [this, ticket](const caf::error&) {
              options.answers->push({ticket, std::nullopt});
            });
  }

  void relay(std::uint64_t ticket, member_question kind, std::string body) {
    const auto& gateway = options.gateway;
    switch (kind) {
    case member_question::hello:
      return options.answers->push({ticket, std::string()});
    case member_question::view:
      return ask(ticket, gateway, view_atom_v, std::move(body));
    case member_question::look_up:
      return ask(ticket, options.directory, lookup_atom_v, std::move(body));
    case member_question::remove:
      return ask(ticket, gateway, remove_atom_v, std::move(body), from_here{});
    case member_question::promote:
      return ask(ticket, gateway, promote_atom_v, std::string(link::promote_pages(body)),
                 link::promote_ms(body), from_here{});
    case member_question::warm:
      return ask(ticket, gateway, warm_atom_v, std::move(body), from_here{});
    case member_question::used:
      return ask(ticket, gateway, used_atom_v, std::move(body), from_here{});
    case member_question::withdraw:
      return withdraw(ticket, std::move(body));
    case member_question::hold: {
      const auto wish = link::hold_of(body);
      return ask(ticket, gateway, hold_atom_v, std::string(wish.pages), wish.holder, wish.for_ms,
                 from_here{});
    }
    }
  }
};

} // namespace

lookup_relay_actor::behavior_type run_lookup_relay(lookup_relay_actor::pointer self,
                                                   const lookup_relay_options& options) {
  PEERCACHE_ASSERT(options.answers != nullptr);
  // The behavior owns the body, so the body lives as long as the actor.
  std::shared_ptr<relay_body> body{new relay_body{self, options}};
  return {
      [body](tell_atom, std::uint64_t ticket, std::uint8_t kind, std::string& question, from_here) {
        body->relay(ticket, static_cast<member_question>(kind), std::move(question));
      }};
}

} // namespace peercache::actors
