/// Where one type of one stream stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeStatus {
    /// The version of all resources of the type when something was sent last; empty before.
    pub sent: String,
    /// The same, when something was acknowledged last.
    pub acked: String,
    /// Why the node refused a resource, as long as it does.
    pub nack: Option<String>,
}
