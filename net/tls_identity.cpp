#include "net/tls_identity.hpp"

#include <array>
#include <fmt/format.h>

namespace peercache::net {

namespace {

constexpr std::string_view scheme = "peercache://";
constexpr std::array roles{tls_role::node, tls_role::operating, tls_role::client};

bool stays(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '~' || c == '-';
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += stays(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// Returns the text whose percent-encoding `text` is; nothing when `text` is not an encoding as
/// `percent_encoded` makes it, or is empty.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3 || digit_of(text[i + 1]) < 0 || digit_of(text[i + 2]) < 0)
      return std::nullopt;
    out += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
    i += 2;
  }
  // Other encodings of the same text are refused, so that equal identities have equal URIs.
  if (out.empty() || percent_encoded(out) != text)
    return std::nullopt;
  return out;
}

} // namespace

std::string_view word_of(tls_role role) noexcept {
  return role == tls_role::node ? "node" : role == tls_role::client ? "client" : "operator";
}

std::string uri_of(const tls_identity& who) {
  return fmt::format("{}{}/{}/{}", scheme, percent_encoded(who.cluster), word_of(who.role),
                     percent_encoded(who.name));
}

std::optional<tls_identity> identity_of(std::string_view uri) {
  if (!uri.starts_with(scheme))
    return std::nullopt;
  uri.remove_prefix(scheme.size());
  const auto first = uri.find('/');
  const auto second = first == std::string_view::npos ? first : uri.find('/', first + 1);
  if (second == std::string_view::npos)
    return std::nullopt;
  const auto cluster = decoded(uri.substr(0, first));
  const auto name = decoded(uri.substr(second + 1));
  if (!cluster || !name)
    return std::nullopt;
  for (const auto role : roles)
    if (uri.substr(first + 1, second - first - 1) == word_of(role))
      return tls_identity{*cluster, role, *name};
  return std::nullopt;
}

} // namespace peercache::net
