//! Framing: chunks of two logical connections on one socket, with ttrpc messages in each.
//!
//! A chunk is `connection: u32, length: u32` (big-endian) and `length` bytes. The bytes of one
//! connection are a stream of ttrpc messages: `length: u32, stream: u32, kind: u8, flags: u8` and
//! `length` bytes. Source: `pkg/net/multiplex` of NRI, `PROTOCOL.md` of ttrpc.

/// Connection on which the runtime calls the plugin.
pub const PLUGIN: u32 = 1;
/// Connection on which the plugin calls the runtime.
pub const RUNTIME: u32 = 2;
/// Largest ttrpc message, without its header.
pub const LARGEST_MESSAGE_BYTES: usize = 4 << 20;
/// Size of a chunk's header.
const CHUNK_HEADER_BYTES: usize = 8;
/// Size of a ttrpc message's header.
const MESSAGE_HEADER_BYTES: usize = 10;
/// Largest chunk that a peer may send: one message.
pub const LARGEST_CHUNK_BYTES: usize = MESSAGE_HEADER_BYTES + LARGEST_MESSAGE_BYTES;
/// Size of the buffer through which the runtime reads a stream. It accepts no chunk that is larger
/// than the free part: the first chunk of a message must fit.
const FIRST_CHUNK_BYTES: usize = 4096;

/// Kind of a ttrpc message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A call.
    Request,
    /// Answer to a call.
    Response,
}

/// One ttrpc message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// [`PLUGIN`] or [`RUNTIME`].
    pub connection: u32,
    /// Call that it belongs to.
    pub stream: u32,
    /// Call or answer.
    pub kind: MessageKind,
    /// Content of the message.
    pub data: Vec<u8>,
}

/// Violations of the framing; nothing after them can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A chunk is too large.
    #[error("it sent a chunk of {0} bytes; {LARGEST_CHUNK_BYTES} are allowed")]
    Chunk(u32),
    /// A message is too large.
    #[error("it sent a message of {0} bytes; {LARGEST_MESSAGE_BYTES} are allowed")]
    Message(u32),
    /// The type is neither a request nor a response.
    #[error("it sent a message of type {0}, which is neither a request nor a response")]
    UnknownKind(u8),
}

/// Decoder of chunks. Buffers at most one incomplete message of each connection.
#[derive(Debug, Default)]
pub struct Decoder {
    header: Vec<u8>,
    /// Connection of the current chunk, and its number of missing bytes.
    chunk: Option<(u32, usize)>,
    streams: [Vec<u8>; 2],
}

impl Decoder {
    /// Decodes bytes; completed messages go to `out`.
    ///
    /// # Errors
    /// [`FrameError`]: the session must end, and this decoder is of no further use.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Message>) -> Result<(), FrameError> {
        loop {
            let Some((connection, left)) = self.chunk else {
                let wanted = CHUNK_HEADER_BYTES - self.header.len();
                let (head, rest) = bytes.split_at(wanted.min(bytes.len()));
                self.header.extend_from_slice(head);
                bytes = rest;
                if self.header.len() < CHUNK_HEADER_BYTES {
                    return Ok(());
                }
                let (connection, length) = (number(&self.header, 0), number(&self.header, 4));
                self.header.clear();
                if length as usize > LARGEST_CHUNK_BYTES {
                    return Err(FrameError::Chunk(length));
                }
                self.chunk = Some((connection, length as usize));
                continue;
            };
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            bytes = rest;
            let left = left - part.len();
            self.chunk = (left > 0).then_some((connection, left));
            // Data of other connections is skipped, as the runtime does.
            let stream = match connection {
                PLUGIN => &mut self.streams[0],
                RUNTIME => &mut self.streams[1],
                _ if self.chunk.is_some() => return Ok(()),
                _ => continue,
            };
            stream.extend_from_slice(part);
            messages(connection, stream, out)?;
            if self.chunk.is_some() {
                return Ok(());
            }
        }
    }

    /// Bytes that wait for the rest of their message.
    pub fn waiting_bytes(&self) -> usize {
        self.header.len() + self.streams.iter().map(Vec::len).sum::<usize>()
    }
}

/// Removes the complete messages from the front of `stream`.
fn messages(
    connection: u32,
    stream: &mut Vec<u8>,
    out: &mut Vec<Message>,
) -> Result<(), FrameError> {
    let mut taken = 0;
    while let Some(header) = stream.get(taken..taken + MESSAGE_HEADER_BYTES) {
        let (length, id) = (number(header, 0), number(header, 4));
        if length as usize > LARGEST_MESSAGE_BYTES {
            return Err(FrameError::Message(length));
        }
        let kind = match header[8] {
            1 => MessageKind::Request,
            2 => MessageKind::Response,
            other => return Err(FrameError::UnknownKind(other)),
        };
        let begin = taken + MESSAGE_HEADER_BYTES;
        let Some(data) = stream.get(begin..begin + length as usize) else {
            break;
        };
        out.push(Message {
            connection,
            stream: id,
            kind,
            data: data.to_vec(),
        });
        taken = begin + length as usize;
    }
    stream.drain(..taken);
    Ok(())
}

/// Appends `message` to `out`, in chunks that the runtime can read.
///
/// # Errors
/// [`FrameError::Message`] if it is too large; nothing is appended.
pub fn encode(message: &Message, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let length = u32::try_from(message.data.len()).unwrap_or(u32::MAX);
    if message.data.len() > LARGEST_MESSAGE_BYTES {
        return Err(FrameError::Message(length));
    }
    let mut bytes = Vec::with_capacity(MESSAGE_HEADER_BYTES + message.data.len());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&message.stream.to_be_bytes());
    bytes.push(match message.kind {
        MessageKind::Request => 1,
        MessageKind::Response => 2,
    });
    bytes.push(0);
    bytes.extend_from_slice(&message.data);
    let (first, rest) = bytes.split_at(bytes.len().min(FIRST_CHUNK_BYTES));
    for part in [first, rest] {
        if !part.is_empty() {
            out.extend_from_slice(&message.connection.to_be_bytes());
            out.extend_from_slice(&(part.len() as u32).to_be_bytes());
            out.extend_from_slice(part);
        }
    }
    Ok(())
}

/// Big-endian number at `at`; the caller has checked the length.
fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes[at..at + 4].try_into();
    u32::from_be_bytes(four.expect("four bytes were taken"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let length = prop_oneof![0usize..64, 4000usize..9000];
        (1u32..=2, any::<u32>(), any::<bool>(), length).prop_map(
            |(connection, stream, is_request, length)| Message {
                connection,
                stream,
                kind: [MessageKind::Response, MessageKind::Request][usize::from(is_request)],
                data: (0..length).map(|i| i as u8).collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_however_they_are_cut(
            messages in proptest::collection::vec(message(), 1..6),
            cut in 1usize..700,
        ) {
            let mut bytes = Vec::new();
            for message in &messages {
                encode(message, &mut bytes).unwrap();
            }
            let (mut decoder, mut found) = (Decoder::default(), Vec::new());
            for part in bytes.chunks(cut) {
                decoder.push(part, &mut found).unwrap();
            }
            prop_assert_eq!(found, messages);
            prop_assert_eq!(decoder.waiting_bytes(), 0);
        }

        /// Promise 72.
        #[test]
        fn garbage_is_refused_or_waits_and_is_bounded(
            parts in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..300),
                0..20,
            ),
        ) {
            let (mut decoder, mut found) = (Decoder::default(), Vec::new());
            for part in &parts {
                if decoder.push(part, &mut found).is_err() {
                    break;
                }
                let most = 2 * (LARGEST_CHUNK_BYTES + part.len()) + CHUNK_HEADER_BYTES;
                prop_assert!(decoder.waiting_bytes() <= most);
            }
        }
    }

    /// Promise 72.
    #[test]
    fn an_excessive_length_is_refused_before_its_bytes_arrive() {
        let push = |bytes: &[u8]| Decoder::default().push(bytes, &mut Vec::new());
        let chunk = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(push(&chunk), Err(FrameError::Chunk(u32::MAX)));
        let mut message = vec![0, 0, 0, 1, 0, 0, 0, 10];
        message.extend([0, 0x40, 0, 1, 0, 0, 0, 1, 1, 0]);
        assert_eq!(push(&message), Err(FrameError::Message((4 << 20) + 1)));
        let mut data = vec![0, 0, 0, 1, 0, 0, 0, 10];
        data.extend([0, 0, 0, 0, 0, 0, 0, 1, 3, 0]);
        assert_eq!(push(&data), Err(FrameError::UnknownKind(3)));
    }

    #[test]
    fn data_of_another_connection_is_skipped() {
        let own = Message {
            connection: PLUGIN,
            stream: 7,
            kind: MessageKind::Request,
            data: b"x".to_vec(),
        };
        let mut bytes = vec![0, 0, 0, 9, 0, 0, 0, 3, 1, 2, 3];
        encode(&own, &mut bytes).unwrap();
        for cut in 1..bytes.len() {
            let (mut decoder, mut found) = (Decoder::default(), Vec::new());
            for part in bytes.chunks(cut) {
                decoder.push(part, &mut found).unwrap();
            }
            assert_eq!(found, std::slice::from_ref(&own), "cut after {cut}");
        }
    }

    #[test]
    fn the_first_chunk_of_a_message_fits_the_runtimes_buffer() {
        let large = Message {
            connection: RUNTIME,
            stream: 1,
            kind: MessageKind::Request,
            data: vec![0; 10_000],
        };
        let mut bytes = Vec::new();
        encode(&large, &mut bytes).unwrap();
        assert_eq!(number(&bytes, 4), 4096);
        assert_eq!(number(&bytes, 8 + 4096 + 4), 10_010 - 4096);
        let too_large = Message {
            data: vec![0; LARGEST_MESSAGE_BYTES + 1],
            ..large
        };
        assert!(encode(&too_large, &mut bytes).is_err());
    }
}
