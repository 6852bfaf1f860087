//! The part of gRPC that the kubelet's API needs: one message a frame, without compression.

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use prost::Message;

/// Largest message that is read, bytes. An allocation lists its devices.
const MOST_BYTES: usize = 1 << 20;
/// Length of a frame's prefix, bytes: compression flag and length.
const PREFIX: usize = 5;

/// Failure of a call.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    /// The transport failed.
    #[error("{0}")]
    Http2(#[from] h2::Error),
    /// The peer's message is invalid or too large.
    #[error("it sent no message of gRPC")]
    Garbled,
}

/// Encodes a message as a frame.
pub fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // A BytesMut grows as needed, so this cannot fail.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

/// Decodes the message of a frame.
pub fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, GrpcError> {
    let (prefix, body) = bytes.split_at_checked(PREFIX).ok_or(GrpcError::Garbled)?;
    let &[0, a, b, c, d] = prefix else {
        return Err(GrpcError::Garbled);
    };
    match u32::from_be_bytes([a, b, c, d]) as usize == body.len() {
        true => M::decode(body).map_err(|_| GrpcError::Garbled),
        false => Err(GrpcError::Garbled),
    }
}

/// Reads everything that a peer sends.
pub async fn body(stream: &mut RecvStream) -> Result<Vec<u8>, GrpcError> {
    let mut all = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        all.extend_from_slice(&data);
        if all.len() > MOST_BYTES {
            return Err(GrpcError::Garbled);
        }
    }
    Ok(all)
}
