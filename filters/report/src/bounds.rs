//! Bounds of a report. The writer stays within them, and the reader takes no more.

pub use portcullis_filter_config::activity::OTHER;

/// Most bytes of the clusters of one part of a report. A single cluster is smaller, see [`MAX_CLUSTER_BYTES`].
pub const MAX_PART_BYTES: usize = 512 << 10;
/// Most bytes about one cluster; a larger one is left out.
pub const MAX_CLUSTER_BYTES: usize = 128 << 10;
/// Most clusters of one part.
pub const MAX_CLUSTERS: usize = 20_000;
/// Most policies of a cluster, with `-` and `other`: the filter's page has no more.
pub const MAX_POLICIES: usize = portcullis_filter_config::activity::MAX_POLICIES + 2;
/// Most reasons of refusals in all.
pub const MAX_REASONS: usize = 64;
/// Most servers of a cluster; those behind are counted together, as [`OTHER`].
pub const MAX_SERVERS: usize = 64;
/// Most flow control schemas of a cluster.
pub const MAX_LIMITS: usize = 64;
/// Most users, groups and user agents, of each; those behind are counted together, as [`OTHER`].
pub const MAX_TALKERS: usize = 20;
/// Most shadows of a cluster.
pub const MAX_SHADOWS: usize = portcullis_filter_config::activity::MAX_SHADOWS;
/// Most kinds of differences of a shadow.
pub const MAX_DIFFERENCES: usize = portcullis_filter_config::activity::MAX_DIFFERENCES;
/// Most bytes about a shadow; a longer message is not read.
pub const MAX_SHADOW_BYTES: usize = 16 << 10;
/// Most bytes of each word of a difference, and of the mark of a shadow.
pub const MAX_DIFFERENCE_WORD: usize = 160;
/// Most bytes of the name of a cluster, a server or a schema.
pub const MAX_NAME: usize = 260;
/// Most bytes of a reason.
pub const MAX_REASON: usize = 64;
/// Most bytes of the name of a user, a group or a user agent.
pub const MAX_TALKER_NAME: usize = 128;

/// A name that is not longer than `most` bytes.
pub fn shortened(name: &str, most: usize) -> &str {
    name.get(..name.floor_char_boundary(most)).unwrap_or_default()
}
