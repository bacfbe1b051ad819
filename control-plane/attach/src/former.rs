use std::collections::BTreeMap;

use crate::name::ObjectName;

/// A listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerName {
    /// The Gateway.
    pub gateway: ObjectName,
    /// The listener's name in it.
    pub listener: String,
}

/// The Secrets with whose certificates listeners were served before an edit, for as long as those after it are not read. A listener
/// has them only if it has no other, and if its Gateway may refer to them still.
pub type FormerCertificates = BTreeMap<ListenerName, Vec<ObjectName>>;
