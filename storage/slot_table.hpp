#pragma once

// CONTRACT (namespace peercache::storage):
//
// class pool_memory: RAII over one POSIX shared memory object: header page (magic, version, incarnation, sizes), the
//   slot table (one slot_entry per 4 KiB granule), then the pages, 4 KiB-aligned (2 MiB-aligned with huge pages).
//     static result<pool_memory> create(const pool_memory_options&)   // node: O_EXCL, mode 0600, cleans leftovers
//     static result<pool_memory> attach(name, expected incarnation)   // client on the same host
//     std::span<std::byte> bytes_of(slot_id, length) const; slot_entry& entry(slot_id) const; granules(), incarnation()
//     session locks: lock_session(index) / session_is_dead(index): OFD locks on a byte of the object, so that
//     the kernel, not a heartbeat, says when a client process is gone.
//
// class slot_table: the order of stores and loads over those entries (seqlock with pins):
//   owner:  begin_fill(slot) -> generation odd; publish(slot, key, length, checksum) -> even generation;
//           give_up(slot) -> odd, store fence before anything is overwritten; pins(slot)
//   reader: bool pin_if(slot, gen, key, length) / unpin(slot); bool still(slot, gen); count_use(slot)
