/// The reports of gateways about the limits of all gateways that an object is served with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitFacts {
    /// Gateways that have reported of late about one of these limits.
    pub gateways: usize,
    /// Those of them that go by their local limit in the place of one of these.
    pub local: usize,
    /// The first of those by name.
    pub local_names: Vec<String>,
    /// Schemas for which a gateway does so.
    pub schemas: usize,
    /// The first of those by name.
    pub schema_names: Vec<String>,
}

impl LimitFacts {
    /// Most gateways and schemas that are named.
    pub const MAX_NAMED: usize = 5;
}
