/// Why a request was refused: the closed set that logs and metrics may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The request came back to the gateway that sent it.
    Loop,
    /// The authority is not one of the cluster's names.
    Misdirected,
    /// Path, method or headers that no honest client sends.
    BadRequest,
    /// A presented credential failed.
    Unauthorized,
    /// A credential was not checked: no server reviews tokens, too many are reviewed already, or a certificate cannot be read. Clients
    /// without a credential can bring it about.
    Unchecked,
    /// The servers gave no usable answer to a review.
    ReviewFailed,
    /// The upstream does not believe the gateway.
    GatewayCredential,
    /// The cluster is closed.
    Denied,
    /// As many requests run, or as many came, as may.
    FlowControl,
    /// The fair queue of the request is full.
    QueueFull,
    /// The request waited in a fair queue for too long.
    QueueTimeout,
    /// The client asked to impersonate.
    Impersonation,
    /// The client is, or asked to impersonate, a protected identity.
    ProtectedIdentity,
    /// An access list denies the request, or does not let it in.
    DeniedByList,
    /// A dispatch policy denies the request.
    DeniedByPolicy,
    /// No dispatch policy matches.
    NoPolicy,
    /// The cluster's configuration is missing.
    NotConfigured,
    /// The filter failed.
    Internal,
}

impl Cause {
    /// Whether the dispatch policies, or the limits that they name, refused the request: its user was known.
    pub const fn is_of_policies(self) -> bool {
        matches!(
            self,
            Cause::DeniedByPolicy | Cause::NoPolicy | Cause::FlowControl | Cause::QueueFull | Cause::QueueTimeout
        )
    }

    /// All of them.
    pub const ALL: [Cause; 18] = [
        Cause::Loop,
        Cause::Misdirected,
        Cause::BadRequest,
        Cause::Unauthorized,
        Cause::Unchecked,
        Cause::ReviewFailed,
        Cause::GatewayCredential,
        Cause::Denied,
        Cause::FlowControl,
        Cause::QueueFull,
        Cause::QueueTimeout,
        Cause::Impersonation,
        Cause::ProtectedIdentity,
        Cause::DeniedByList,
        Cause::DeniedByPolicy,
        Cause::NoPolicy,
        Cause::NotConfigured,
        Cause::Internal,
    ];

    /// The cause in snake case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Loop => "loop",
            Cause::Misdirected => "misdirected",
            Cause::BadRequest => "bad_request",
            Cause::Unauthorized => "unauthorized",
            Cause::Unchecked => "unchecked",
            Cause::ReviewFailed => "review_failed",
            Cause::GatewayCredential => "gateway_credential",
            Cause::Denied => "denied",
            Cause::FlowControl => "flow_control",
            Cause::QueueFull => "queue_full",
            Cause::QueueTimeout => "queue_timeout",
            Cause::Impersonation => "impersonation",
            Cause::ProtectedIdentity => "protected_identity",
            Cause::DeniedByList => "denied_by_list",
            Cause::DeniedByPolicy => "denied_by_policy",
            Cause::NoPolicy => "no_policy",
            Cause::NotConfigured => "not_configured",
            Cause::Internal => "internal",
        }
    }
}
