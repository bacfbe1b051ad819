//! `docs/reference/upstreamcluster.md`, written from the code: `UPDATE_DOCS=1 cargo test --workspace --lib -- schema::page`.
fn x() {}
