// Stands in for libibverbs, which is looked up at the first call: programs load without it, and use
// the host's own library, whose providers fit only that library. rdma/verbs calls the ibv_*
// functions of this file; a program whose own objects define these functions, such as the tests'
// fake, uses its own.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <type_traits>

// The header's macros of these names would replace the functions that this file defines.
#undef ibv_query_port
#undef ibv_reg_mr

namespace peercache::rdma {
namespace {

/// The library, which stays loaded: threads of its providers may run until the process ends.
void* library() noexcept {
  static void* const loaded = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  return loaded;
}

/// What stands in for a function of libibverbs that the library lacks: sets errno to ELIBACC, and
/// returns null where the function returns a pointer, else ELIBACC, which means failure.
template <class Answer>
Answer missing() noexcept {
  errno = ELIBACC;
  if constexpr (std::is_pointer_v<Answer>)
    return nullptr;
  else if constexpr (!std::is_void_v<Answer>)
    return ELIBACC;
}

/// Calls the library's function of this name and of the type of `Function`.
template <auto Function, class... Values>
auto call(const char* name, Values... values) noexcept {
  using function = decltype(Function);
  static const auto found =
      library() == nullptr ? nullptr : reinterpret_cast<function>(::dlsym(library(), name));
  if (found == nullptr)
    return missing<std::invoke_result_t<function, Values...>>();
  return found(values...);
}

} // namespace

} // namespace peercache::rdma

using peercache::rdma::call;

extern "C" {

// Functions of libibverbs for devices.

ibv_device** ibv_get_device_list(int* count) {
  return call<&ibv_get_device_list>("ibv_get_device_list", count);
}
void ibv_free_device_list(ibv_device** list) {
  call<&ibv_free_device_list>("ibv_free_device_list", list);
}
const char* ibv_get_device_name(ibv_device* device) {
  return call<&ibv_get_device_name>("ibv_get_device_name", device);
}
ibv_context* ibv_open_device(ibv_device* device) {
  return call<&ibv_open_device>("ibv_open_device", device);
}
int ibv_close_device(ibv_context* context) {
  return call<&ibv_close_device>("ibv_close_device", context);
}
int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  return call<&ibv_query_device>("ibv_query_device", context, out);
}
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* out) {
  return call<&ibv_query_port>("ibv_query_port", context, port, out);
}
int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
  return call<&ibv_query_gid>("ibv_query_gid", context, port, index, out);
}
int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* out, std::uint32_t flags, std::size_t bytes) {
  return call<&_ibv_query_gid_ex>("_ibv_query_gid_ex", context, port, index, out, flags, bytes);
}
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return call<&ibv_get_async_event>("ibv_get_async_event", context, event);
}
void ibv_ack_async_event(ibv_async_event* event) {
  call<&ibv_ack_async_event>("ibv_ack_async_event", event);
}
const char* ibv_event_type_str(ibv_event_type event) {
  return call<&ibv_event_type_str>("ibv_event_type_str", event);
}

// Functions of libibverbs for memory.

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return call<&ibv_alloc_pd>("ibv_alloc_pd", context);
}
int ibv_dealloc_pd(ibv_pd* domain) {
  return call<&ibv_dealloc_pd>("ibv_dealloc_pd", domain);
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, std::size_t bytes, int rights) {
  return call<&ibv_reg_mr>("ibv_reg_mr", domain, memory, bytes, rights);
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, std::size_t bytes, std::uint64_t address,
                         unsigned rights) {
  return call<&ibv_reg_mr_iova2>("ibv_reg_mr_iova2", domain, memory, bytes, address, rights);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                          std::uint64_t address, int descriptor, int rights) {
  return call<&ibv_reg_dmabuf_mr>("ibv_reg_dmabuf_mr", domain, offset, bytes, address, descriptor,
                                  rights);
}
int ibv_dereg_mr(ibv_mr* region) {
  return call<&ibv_dereg_mr>("ibv_dereg_mr", region);
}

// Functions of libibverbs for completions.

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return call<&ibv_create_comp_channel>("ibv_create_comp_channel", context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return call<&ibv_destroy_comp_channel>("ibv_destroy_comp_channel", channel);
}
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  return call<&ibv_create_cq>("ibv_create_cq", context, entries, cq_context, channel, vector);
}
int ibv_destroy_cq(ibv_cq* queue) {
  return call<&ibv_destroy_cq>("ibv_destroy_cq", queue);
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** cq_context) {
  return call<&ibv_get_cq_event>("ibv_get_cq_event", channel, queue, cq_context);
}
void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  call<&ibv_ack_cq_events>("ibv_ack_cq_events", queue, count);
}

// Functions of libibverbs for queue pairs.

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  return call<&ibv_create_qp>("ibv_create_qp", domain, wanted);
}
int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* to, int mask) {
  return call<&ibv_modify_qp>("ibv_modify_qp", pair, to, mask);
}
int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* out, int mask, ibv_qp_init_attr* created) {
  return call<&ibv_query_qp>("ibv_query_qp", pair, out, mask, created);
}
int ibv_destroy_qp(ibv_qp* pair) {
  return call<&ibv_destroy_qp>("ibv_destroy_qp", pair);
}

} // extern "C"
