#include "tests/scenario/remove_call.hpp"

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/lookup.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

remove_call::remove_call(cluster& in, process& by, const page_key& key, time_point until)
    : cluster_(in), by_(by), until_(until), key_(key), plan_({&key_, 1}, {&result_, 1}) {}

void remove_call::begin() {
  if (by_.find_here(key_))
    plan_.is_here(0);
  auto told = [self = shared_from_this()](std::span<const client::lookup_answer> answers) {
    self->plan_.looked_up(answers);
    self->ask_holders();
  };
  std::make_shared<lookup>(cluster_, by_, std::vector{key_}, until_, told)->begin();
}

void remove_call::ask_holders() {
  for (const auto& share : plan_.ask_holders(by_.readers_know().is_member, by_.inc())) {
    ++open_;
    const auto take = [self = shared_from_this(), share](const std::string* said) {
      if (said != nullptr)
        self->plan_.answered(share, *said, self->by_.remembered().stale);
      else
        self->plan_.failed(share);
      self->arrived();
    };
    cluster_.ask(by_, share.holder, until_ - cluster_.time().now(), take, &process::serve_remove,
                 share.keys);
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

} // namespace peercache::scenario
