use std::fmt;

/// The holder of a gateway or a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberHolder {
    /// No instance: it is served with everything else that belongs to none.
    Free,
    /// The instance of this name.
    Instance(String),
    /// Nothing at all: an Envoy whose certificate names instances of which none selects it, or a new cluster that none selects while
    /// it is not known of an instance what it selects.
    Nobody,
}

impl MemberHolder {
    /// The instance, if it is one.
    pub fn instance(&self) -> Option<&str> {
        match self {
            MemberHolder::Instance(name) => Some(name),
            MemberHolder::Free | MemberHolder::Nobody => None,
        }
    }
}

impl fmt::Display for MemberHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberHolder::Instance(name) => write!(f, "Instance {name}"),
            MemberHolder::Free => f.write_str("no Instance"),
            MemberHolder::Nobody => f.write_str("nobody"),
        }
    }
}
