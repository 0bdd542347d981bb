// The removals of a node's clients.

#include "client/calls/remove_plan.hpp"
#include "tests/scenario/client_call.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace peercache::scenario {
namespace {

/// One removal of a page, which does what client/calls/remove_plan.hpp decides.
class remove_call : public client_call<remove_call> {
public:
  remove_call(cluster& in, process& by, const page_key& key);
  void begin();

private:
  void ask_holders();
  void arrived();

  const page_key key_;
  client::page_result result_;
  client::remove_plan plan_;
  /// Answers that are on their way; the first is the answer of the directory.
  std::size_t open_ = 1;
};

remove_call::remove_call(cluster& in, process& by, const page_key& key)
    : client_call(in, by), key_(key), plan_({&key_, 1}, {&result_, 1}) {}

void remove_call::begin() {
  if (by_.find_here(key_))
    plan_.is_here(0);
  auto told = [self = shared_from_this()](std::span<const client::lookup_answer> answers) {
    self->plan_.looked_up(answers);
    self->ask_holders();
  };
  by_.look_up({key_}, until_, told);
}

void remove_call::ask_holders() {
  const bool own_is_in_view = by_.clients_know()->view.find(by_.inc()) != nullptr;
  const auto own = own_is_in_view ? by_.inc() : incarnation{};
  for (const auto& share : plan_.ask_holders(by_.readers_know().is_member, own)) {
    ++open_;
    const auto take = [this, share](const std::string* said) {
      if (said != nullptr)
        plan_.answered(share, *said, by_.remembered().stale);
      else
        plan_.failed(share);
      arrived();
    };
    ask(share.holder, left(), take, &process::serve_remove, share.keys);
  }
  arrived();
}

void remove_call::arrived() {
  if (--open_ > 0)
    return;
  by_.remembered().locations.erase(key_);
  plan_.end();
  by_.tell_stale_records();
}

} // namespace

void process::remove(const page_key& key) {
  std::make_shared<remove_call>(cluster_, *this, key)->begin();
}

} // namespace peercache::scenario
