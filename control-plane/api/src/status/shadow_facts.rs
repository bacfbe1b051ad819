use portcullis_filter_config::activity::ShadowDifference;

/// The reports of gateways about the shadow that an object is served with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowFacts {
    /// Gateways that have reported of late, also those that judged none.
    pub gateways: usize,
    /// Requests that were judged, since the object has this shadow.
    pub judged: u64,
    /// Those that the shadow would treat otherwise, by kind.
    pub differences: Vec<(ShadowDifference, u64)>,
    /// Those of kinds that are not counted apart.
    pub others: u64,
    /// Whether a report had no room in the control plane.
    pub is_partial: bool,
}
