#pragma once

#include "common/byte_codec.hpp"
#include "handoff/transfer_messages.hpp"

namespace peercache::handoff {

// Each `append_fields` appends the fields of one message between transfer workers
// (`handoff_wire_version`); the caller appends the byte that names the kind of the message.

/// @pre the lists of the message are within their limits
void append_fields(byte_writer& out, const transfer_write& sent);
void append_fields(byte_writer& out, const transfer_read& sent);
void append_fields(byte_writer& out, const transfer_lent& sent);
void append_fields(byte_writer& out, const transfer_ended& sent);
void append_fields(byte_writer& out, const transfer_stop& sent);

// Each `read_...` reads the fields that the `append_fields` of this message wrote. Other bytes, and
// memory that no process can have, fail the reader, and the returned message must not be used then.
// Texts are made `printable`.

transfer_write read_transfer_write(byte_reader& in);
transfer_read read_transfer_read(byte_reader& in);
transfer_lent read_transfer_lent(byte_reader& in);
transfer_ended read_transfer_ended(byte_reader& in);
transfer_stop read_transfer_stop(byte_reader& in);

} // namespace peercache::handoff
