//! Generated text: words of a fixed vocabulary, some of them frequent, in lines.

/// Chunks of the corpus; a unit of text work is one chunk, counted modulo this number.
pub(crate) const CHUNKS: usize = 64;
const CHUNK_BYTES: usize = 64 * 1024;
const VOCABULARY: usize = 5_000;

/// Generates 4 MiB of text in [`CHUNKS`] chunks, the same for the same seed.
pub(crate) fn generate(seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let words: Vec<String> = (0..VOCABULARY)
        .map(|_| {
            (0..random.usize(2..10))
                .map(|_| random.lowercase())
                .collect()
        })
        .collect();
    (0..CHUNKS)
        .map(|_| {
            let mut chunk = String::with_capacity(CHUNK_BYTES + 16);
            let mut in_line = 0;
            while chunk.len() < CHUNK_BYTES {
                // The cube of a uniform number makes early words frequent, as in natural language.
                let skewed = random.f64().powi(3) * VOCABULARY as f64;
                chunk += &words[skewed as usize];
                in_line += 1;
                chunk.push(if in_line % 12 == 0 { '\n' } else { ' ' });
            }
            chunk
        })
        .collect()
}
