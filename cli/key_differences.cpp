#include "cli/key_differences.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace peercache::cli {
namespace {

/// Bytes that a leaf's name keeps of the name of the value around the leaf; the rest is cut.
constexpr std::size_t name_bytes_max = 256;

struct known_field {
  std::string_view field; ///< The field's name, or the last part of it.
  std::string_view cause; ///< Name of the cause of misses that a difference in this field is.
  std::string_view fix;
  bool changes_keys = false;
};

constexpr std::string_view one_tp = "start all engines with the same tensor parallelism; in SGLang "
                                    "tp_lcm_size with the layout page_head does, too";
constexpr std::string_view one_block = "start all engines with the same --block-size";
constexpr std::string_view one_dtype =
    "start all engines with the same --kv-cache-dtype and --dtype";
constexpr std::string_view one_name = "serve the model under one name: the same --model-path or "
                                      "--model for all engines";
constexpr std::string_view other_model = "these are different models, or different settings of "
                                         "one: give each a name or a space of its own";

/// The fields that operators set, the ones that explain others first.
constexpr std::array known_fields{
    known_field{"hash_seed", "hash_seed",
                "start all engines with the same PYTHONHASHSEED, and the same hash algorithm",
                true},
    known_field{"model", "model", one_name},
    known_field{"model.name", "model", one_name},
    known_field{"space", "namespace", "give all engines of a tenant the same \"space\""},
    known_field{"namespace", "namespace",
                "give all engines that may share pages the same namespace"},
    known_field{"interface_v1", "interface_v1",
                "add \"interface_v1\": 1 to the extra config of all engines"},
    known_field{"page_size", "page_size", "start all engines with the same --page-size", true},
    known_field{"tokens_per_block", "page_size", one_block, true},
    known_field{"tokens_per_hash", "page_size", one_block, true},
    known_field{"blocks_per_chunk", "page_size",
                "give all engines the same block_size of the offloading tier", true},
    known_field{"tp", "tp", one_tp},
    known_field{"tp_size", "tp", one_tp},
    known_field{"pp", "pp", "start all engines with the same pipeline parallelism"},
    known_field{"pp_size", "pp", "start all engines with the same pipeline parallelism"},
    known_field{"cp", "cp", "start all engines with the same context parallelism"},
    known_field{"pcp_size", "cp", "start all engines with the same context parallelism"},
    known_field{"dcp_size", "cp", "start all engines with the same context parallelism"},
    known_field{"dtype", "dtype", one_dtype},
    known_field{"device_dtype", "dtype", one_dtype},
    known_field{"cache_dtype", "dtype", one_dtype},
    known_field{"layout", "layout", "start all engines with the same --hicache-mem-layout"},
    known_field{"kv_cache_layout", "layout",
                "give all engines the same attention backend, and the same \"kv_cache_layout\""},
    known_field{"version", "version", "run the same version of the engine on all hosts"},
    known_field{"layer_num", "geometry", other_model},
    known_field{"layer_names", "geometry", other_model},
    known_field{"head_dim", "geometry", other_model},
    known_field{"kv_cache_dim", "geometry", other_model},
};

/// Fields whose values follow from other fields.
constexpr std::array<std::string_view, 8> followers{
    "size_per_token", "row_bytes",   "worker_kv_bytes_per_block", "head_num", "start_layer",
    "end_layer",      "draft_bytes", "kv_bytes_per_block"};

std::string_view last_part(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

const known_field* find_known(std::string_view name) {
  for (const auto& each : known_fields)
    if (each.field == name)
      return &each;
  for (const auto& each : known_fields)
    if (each.field == last_part(name))
      return &each;
  return nullptr;
}

/// Whether the text has no more levels of brackets than may be taken apart. Brackets in strings
/// count, too: such a value is compared as a whole.
bool has_few_levels(std::string_view json) {
  std::size_t levels = 0;
  for (const char c : json) {
    if (c == '{' || c == '[')
      ++levels;
    else if ((c == '}' || c == ']') && levels > 0)
      --levels;
    if (levels > json_levels_max)
      return false;
  }
  return true;
}

void add_part(key_parts& to, const std::string& name, const std::string& value) {
  if (to.size() < key_parts_max)
    to[name.substr(0, name_bytes_max)] = value;
}

/// Adds each leaf of a JSON value as a part of its own. @pre `value` has at most `json_levels_max`
/// levels
void add_json(key_parts& to, const std::string& name, const nlohmann::json& value) {
  if (!value.is_object() && !value.is_array())
    return add_part(to, name, value.is_string() ? value.get<std::string>() : value.dump());
  for (const auto& [key, inner] : value.items())
    add_json(to, fmt::format("{}.{}", name.substr(0, name_bytes_max), key), inner);
}

/// Adds a field's parts by their names: "geometry=layer_num=3,head_num=4" has two, JSON has one for
/// each leaf.
void add_parts(key_parts& to, const std::string& name, const std::string& value) {
  const bool may_be_json = value.starts_with('{') || value.starts_with('[');
  if (may_be_json && value.size() <= json_bytes_max && has_few_levels(value)) {
    const auto parsed = nlohmann::json::parse(value, nullptr, false);
    if (!parsed.is_discarded())
      return add_json(to, name, parsed);
  }
  if (name != "geometry")
    return add_part(to, name, value);
  for (std::size_t begin = 0; begin < value.size() && to.size() < key_parts_max;) {
    const auto end = std::min(value.find(',', begin), value.size());
    const auto part = value.substr(begin, end - begin);
    const auto equals = std::min(part.find('='), part.size());
    add_part(to, part.substr(0, equals), equals < part.size() ? part.substr(equals + 1) : "");
    begin = end + 1;
  }
}

/// The groups that "RANK/GROUPS" names.
std::string groups_of(const std::string& place) {
  const auto slash = place.find('/');
  return slash == std::string::npos ? place : place.substr(slash + 1);
}

/// A field's difference in the words of operators; nothing for a difference that is by design.
std::optional<key_difference> worded(key_difference raw) {
  const bool is_place =
      raw.field == "heads" || raw.field == "tp" || raw.field == "pp" || raw.field == "cp";
  if (raw.field == "pool" || raw.field == "format")
    return std::nullopt;
  if (is_place) {
    raw.asked = groups_of(raw.asked);
    raw.stored = groups_of(raw.stored);
    if (raw.asked == raw.stored)
      return std::nullopt; // Ranks of the same group differ by design.
    if (raw.field == "heads")
      raw.field = "tp";
  }
  const auto is_usual = [](const std::string& form) { return form == "parts" || form == "flat"; };
  if (raw.field == "form") {
    if (!is_usual(raw.asked) || !is_usual(raw.stored))
      return std::nullopt; // Pages of a head, a piece or a draft have another form by design.
    raw.field = "interface_v1";
    raw.asked = raw.asked == "parts" ? "1" : "0";
    raw.stored = raw.stored == "parts" ? "1" : "0";
  }
  return raw;
}

std::size_t rank_of(const key_difference& one) {
  const auto* known = find_known(one.field);
  return known != nullptr ? static_cast<std::size_t>(known - known_fields.data())
                          : known_fields.size();
}

bool follows(const key_difference& one) {
  return std::find(followers.begin(), followers.end(), last_part(one.field)) != followers.end();
}

/// Removes differences of fields that follow from other fields, and of the namespace, unless
/// nothing else differs. Removes device_dtype where dtype differs.
void leave_out_followers(std::vector<key_difference>& all) {
  const auto drop = [&](auto&& is_dropped) {
    if (!std::all_of(all.begin(), all.end(), is_dropped))
      std::erase_if(all, is_dropped);
  };
  drop(follows);
  drop([](const key_difference& one) { return one.field == "namespace"; });
  if (std::any_of(all.begin(), all.end(), [](const auto& one) { return one.field == "dtype"; }))
    std::erase_if(all, [](const auto& one) { return one.field == "device_dtype"; });
}

} // namespace

key_parts parts_of(const std::vector<std::string>& fields) {
  key_parts parts;
  for (std::size_t i = 0; i < fields.size() && parts.size() < key_parts_max; ++i) {
    const auto equals = fields[i].find('=');
    if (i == 0 || equals == std::string::npos)
      add_part(parts,
               i == 0   ? "namespace"
               : i == 1 ? "format"
                        : fmt::format("field {}", i + 1),
               fields[i]);
    else
      add_parts(parts, fields[i].substr(0, equals), fields[i].substr(equals + 1));
  }
  return parts;
}

std::vector<key_difference> differences(const key_parts& asked, const key_parts& stored) {
  const std::string none;
  std::vector<key_difference> all;
  for (auto left = asked.begin(), right = stored.begin();
       left != asked.end() || right != stored.end();) {
    const bool in_left =
        right == stored.end() || (left != asked.end() && left->first <= right->first);
    const bool in_right =
        left == asked.end() || (right != stored.end() && right->first <= left->first);
    const auto& name = in_left ? left->first : right->first;
    const auto& value = in_left ? left->second : none;
    const auto& other = in_right ? right->second : none;
    if (value != other) {
      auto one = worded({name, value, other});
      if (!one)
        return {};
      all.push_back(std::move(*one));
    }
    left = in_left ? std::next(left) : left;
    right = in_right ? std::next(right) : right;
  }
  leave_out_followers(all);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return all;
}

bool changes_keys(std::string_view field) {
  const auto* known = find_known(field);
  return known != nullptr && known->changes_keys;
}

std::string cause_of_difference(const key_difference& what) {
  const auto* known = find_known(what.field);
  return std::string{known != nullptr ? known->cause : last_part(what.field)};
}

std::string fix_of_difference(const key_difference& what) {
  if (const auto* known = find_known(what.field); known != nullptr)
    return std::string{known->fix};
  return fmt::format("give all engines that share pages the same {}", what.field);
}

} // namespace peercache::cli
