#include "litmus.hpp"

#include "common/assert.hpp"
#include "relation.hpp"

#include <algorithm>
#include <map>

namespace peercache::litmus {
namespace {

using set = relation::set;

constexpr set one(std::size_t event) {
  return set{1} << event;
}

bool acquires(order how) {
  return how == order::acquire || how == order::acq_rel || how == order::seq_cst;
}
bool releases(order how) {
  return how == order::release || how == order::acq_rel || how == order::seq_cst;
}

/// The events of a program: the first value of each place, then the steps of all threads.
struct events {
  struct origin {
    std::size_t thread, step;
  };
  std::vector<step> steps;
  std::vector<origin> origins;
  std::vector<std::size_t> reads;
  std::map<int, std::vector<std::size_t>> writes; ///< By place; the first value is the first one.
  relation sequenced;                             ///< "Sequenced before", first values before all.
  set all_reads = 0, all_writes = 0, fences = 0, acquiring = 0, releasing = 0, total = 0;

  explicit events(const program& threads);
  void add(const step& what, origin from);
};

void events::add(const step& what, origin from) {
  const auto event = steps.size();
  PEERCACHE_ASSERT(event < relation::events_max);
  steps.push_back(what);
  origins.push_back(from);
  if (what.what == act::load || what.what == act::exchange) {
    reads.push_back(event);
    all_reads |= one(event);
  }
  if (what.what == act::store || what.what == act::exchange) {
    writes[what.place].push_back(event);
    all_writes |= one(event);
  }
  if (what.what == act::fence)
    fences |= one(event);
  if (acquires(what.how))
    acquiring |= one(event);
  if (releases(what.how))
    releasing |= one(event);
  if (what.how == order::seq_cst)
    total |= one(event);
}

events::events(const program& threads) {
  std::map<int, bool> places;
  for (const auto& thread : threads)
    for (const auto& each : thread)
      if (each.what != act::fence)
        places[each.place] = true;
  for (const auto& [place, used] : places)
    add(store(place, 0, order::relaxed), {});
  const auto first = steps.size();
  for (std::size_t thread = 0; thread < threads.size(); ++thread) {
    const auto begin = steps.size();
    for (std::size_t at = 0; at < threads[thread].size(); ++at) {
      for (std::size_t before = 0; before < first; ++before)
        sequenced.add(before, steps.size());
      for (auto before = begin; before < steps.size(); ++before)
        sequenced.add(before, steps.size());
      add(threads[thread][at], {thread, at});
    }
  }
}

/// An execution: who reads whose value, and in which order a place had its values.
struct execution {
  const events& of;
  relation read_from; ///< From the write to its reader.
  relation modified;  ///< The modification orders of all places.

  bool is_allowed() const;
  relation synchronized() const;
  relation in_total_order(const relation& happens, const relation& coherent,
                          const relation& synchronizes) const;
};

/// "Synchronizes with" ([atomics.order]/2 and [atomics.fences]): a release operation, or a write
/// behind a release fence, whose value, or one that exchanges made of it (the release sequence), is
/// read by an acquire operation, or by a read before an acquire fence.
relation execution::synchronized() const {
  const auto exchanges = of.all_reads & of.all_writes;
  const auto sequence =
      relation::identity(of.all_writes) | read_from.between(of.all_writes, exchanges).closure();
  const auto from = relation::identity(of.releasing & of.all_writes) |
                    of.sequenced.between(of.releasing & of.fences, of.all_writes);
  const auto to = relation::identity(of.acquiring & of.all_reads) |
                  of.sequenced.between(of.all_reads, of.acquiring & of.fences);
  return from.then(sequence).then(read_from).then(to);
}

/// What the single total order of all seq_cst operations has to keep to ([atomics.order]/4):
/// "strongly happens before", and what is coherence-ordered before what, seen through fences.
relation execution::in_total_order(const relation& happens, const relation& coherent,
                                   const relation& synchronizes) const {
  const auto fences = of.total & of.fences;
  const auto itself = relation::identity(of.total);
  const auto strongly = (of.sequenced | synchronizes.between(of.total, of.total) |
                         of.sequenced.then(happens).then(of.sequenced))
                            .closure();
  const auto begin = itself | happens.between(fences, ~set{0});
  const auto end = itself | happens.between(~set{0}, fences);
  return strongly.between(of.total, of.total) | begin.then(coherent).then(end);
}

bool execution::is_allowed() const {
  // From a read to the writes behind the one that it has read; an exchange is behind it itself.
  relation overwritten = read_from.inverse().then(modified);
  relation behind;
  for (std::size_t i = 0; i < of.steps.size(); ++i)
    for (std::size_t j = 0; j < of.steps.size(); ++j)
      if (i != j && overwritten.has(i, j))
        behind.add(i, j);
  // An exchange reads the value right before its own.
  if (!behind.then(modified).irreflexive())
    return false;
  const auto synchronizes = synchronized();
  const auto happens = (of.sequenced | synchronizes).closure();
  const auto coherent = (read_from | modified | behind).closure();
  // Coherence: [intro.races]/15 to 18.
  if (!happens.irreflexive() || !coherent.irreflexive() || !happens.then(coherent).irreflexive())
    return false;
  return in_total_order(happens, coherent, synchronizes).acyclic();
}

/// Goes through all executions of a program.
class search {
public:
  search(const program& threads, const std::function<bool(const readings&)>& wanted)
      : events_(threads), wanted_(wanted), readings_(threads) {}

  bool run() { return choose_read(0); }

private:
  bool choose_read(std::size_t index) {
    if (index == events_.reads.size())
      return wanted_(readings_) && choose_order(events_.writes.begin(), {});
    const auto reader = events_.reads[index];
    for (const auto writer : events_.writes.at(events_.steps[reader].place)) {
      if (writer == reader)
        continue;
      const auto [thread, step] = events_.origins[reader];
      readings_.set(thread, step, events_.steps[writer].value);
      sources_[reader] = writer;
      if (choose_read(index + 1))
        return true;
    }
    return false;
  }

  using places = std::map<int, std::vector<std::size_t>>::const_iterator;

  bool choose_order(places place, const relation& modified) {
    if (place == events_.writes.end()) {
      relation read_from;
      for (const auto& [reader, writer] : sources_)
        read_from.add(writer, reader);
      return execution{events_, read_from, modified}.is_allowed();
    }
    // Each order of the writes but the first value, which stays the first one.
    auto writes = place->second;
    do {
      auto more = modified;
      for (std::size_t i = 0; i < writes.size(); ++i)
        for (std::size_t j = i + 1; j < writes.size(); ++j)
          more.add(writes[i], writes[j]);
      if (choose_order(std::next(place), more))
        return true;
    } while (std::next_permutation(writes.begin() + 1, writes.end()));
    return false;
  }

  const events events_;
  const std::function<bool(const readings&)>& wanted_;
  readings readings_;
  std::map<std::size_t, std::size_t> sources_; ///< For each reader, whose value it reads.
};

} // namespace

readings::readings(const program& threads) {
  for (const auto& thread : threads)
    values_.emplace_back(thread.size());
}

bool allows(const program& threads, const std::function<bool(const readings&)>& wanted) {
  return search(threads, wanted).run();
}

} // namespace peercache::litmus
