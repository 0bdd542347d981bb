#include "discovery/view_changes.hpp"

#include "common/limits.hpp"

#include <utility>

namespace peercache::discovery {

namespace {

/// Maximum number of names that one list of a log line shows.
constexpr std::size_t names_max = 8;

/// A list of names with a head, as text: "came: a, b".
class name_list {
public:
  explicit name_list(std::string head) : text_(std::move(head)) {}

  void add(const std::string& name) {
    if (count_ < names_max)
      text_ += (count_ == 0 ? ": " : ", ") + name;
    ++count_;
  }
  /// Adds the list to `line` unless the list is empty.
  void append_to(std::string& line) const {
    if (count_ == 0)
      return;
    line += (line.empty() ? "" : "; ") + text_;
    if (count_ > names_max)
      line += " and " + std::to_string(count_ - names_max) + " more";
  }

private:
  std::string text_;
  std::size_t count_ = 0;
};

std::string with_address(const std::string& name, const std::string& host, std::uint16_t port,
                         std::string_view why = {}) {
  auto text = name + " (" + host + ":" + std::to_string(port);
  if (!why.empty())
    text.append(", ").append(why);
  return text + ")";
}

} // namespace

std::string changes_between(const view& before, const view& after) {
  name_list came("came");
  name_list again("started again");
  name_list went("gone");
  name_list stopped("stopped in order");
  for (const auto& m : after.members) {
    const auto* known = before.find(m.id);
    if (known == nullptr)
      came.add(with_address(m.name, m.host, m.control_port));
    else if (known->inc != m.inc)
      again.add(with_address(m.name, m.host, m.control_port));
  }
  for (const auto& m : before.members) {
    if (after.find(m.id) != nullptr)
      continue;
    if (const auto* lost = after.find_gone(m.name))
      went.add(with_address(lost->name, lost->host, lost->control_port, to_string(lost->why)));
    // The list of gone members is full, so it may lack this one.
    else if (after.gone.size() == limits::gone_members_max)
      went.add(with_address(m.name, m.host, m.control_port));
    else
      stopped.add(with_address(m.name, m.host, m.control_port));
  }
  std::string line;
  for (const auto* list : {&came, &again, &went, &stopped})
    list->append_to(line);
  return line.empty() ? "no node came or went" : line;
}

} // namespace peercache::discovery
