//! Bounds of one object. All objects share the control plane and every Envoy.

/// Maximum number of host names in one list of an object. Each request compares its own with them.
pub(crate) const MAX_NAMES: usize = 256;
/// Maximum number of servers.
pub const MAX_SERVERS: usize = 1_000;
/// Maximum weight of a server.
pub(crate) const MAX_SERVER_WEIGHT: u32 = 128;
/// Maximum number of servers of a `KubernetesUpstream`: tenants write them, and each has its own health checks.
pub(crate) const MAX_UPSTREAM_SERVERS: usize = 32;
/// Maximum size of the specification of a `KubernetesUpstream`, as JSON: each listener has it, and tenants share the room at a Gateway.
pub(crate) const MAX_UPSTREAM_BYTES: usize = 16 * 1024;
/// Maximum number of flow control schemas.
pub(crate) const MAX_SCHEMAS: usize = 1_000;
/// Maximum number of fair queues.
pub(crate) const MAX_FAIR_QUEUES: usize = 100;
/// Maximum number of weights of a fair queue.
pub(crate) const MAX_WEIGHTS: usize = 1_000;
/// Maximum number of groups of servers. Each is three Envoy clusters, with health checks of their own.
pub(crate) const MAX_GROUPS: usize = 100;
/// Maximum number of dispatch policies, those of profiles included.
pub(crate) const MAX_POLICIES: usize = 20_000;
/// Maximum number of profiles.
pub(crate) const MAX_PROFILES: usize = 16;
/// Maximum number of entries of an access list. A request may be compared with each.
pub(crate) const MAX_ACCESS_ENTRIES: usize = 64;
/// Maximum number of client addresses in the access lists of an object, and in those of the settings, which are part of every
/// object's.
pub(crate) const MAX_ADDRESSES: usize = 10_000;
pub(crate) const MAX_GATEWAY_ADDRESSES: usize = 1_000;
/// Maximum number of ranges of client addresses that may connect.
pub(crate) const MAX_CLIENT_ADDRESSES: usize = 256;
/// Maximum of the bits of all these ranges, times the names and virtual IPs of the object. Envoy keeps a tree for each name, in
/// which each bit of a range is a node (60 bytes were measured), and builds all trees anew at each change of the listener.
pub(crate) const MAX_CLIENT_ADDRESS_BITS: usize = 100_000;
/// Maximum number of user agents of an entry of an access list.
pub(crate) const MAX_USER_AGENTS: usize = 64;
/// Maximum number of issuers of tokens, of an issuer's audiences, and of claims that it requires.
pub(crate) const MAX_TOKEN_ISSUERS: usize = portcullis_filter_config::TokenIssuer::MAX_ISSUERS;
pub(crate) const MAX_AUDIENCES: usize = 16;
pub(crate) const MAX_CLAIM_RULES: usize = 16;
/// Maximum length of a claim's name.
pub(crate) const MAX_CLAIM: usize = 256;
/// Maximum size of a JSON Web Key Set.
pub(crate) const MAX_JWKS: usize = 64 * 1024;
/// Maximum length of a URL that keys are read from, and maximum size of the CAs by which its server is known.
pub(crate) const MAX_KEYS_URL: usize = 2048;
pub(crate) const MAX_ISSUER_CAS: usize = 64 * 1024;
/// Maximum number of virtual IPs.
pub(crate) const MAX_VIRTUAL_IPS: usize = 64;
/// Maximum number of further addresses of the listener. Each is a socket for each worker of Envoy.
pub(crate) const MAX_ADDITIONAL_ADDRESSES: usize = 16;
/// Maximum length of a list of cipher suites.
pub(crate) const MAX_CIPHER_SUITES: usize = 16;
/// Maximum number of targets of a policy, as of the entries of its status.
pub(crate) const MAX_TARGETS: usize = 16;
/// Maximum length of a zone's name, as of a label's value.
pub const MAX_ZONE: usize = 63;
/// Maximum length of a health check's path. No kube-apiserver has longer ones of its own.
pub(crate) const MAX_PATH: usize = 1024;
/// Maximum number of requirements of a label selector. Each object is compared with all.
pub const MAX_SELECTOR_TERMS: usize = 32;
/// Maximum number of values of a requirement.
pub const MAX_SELECTOR_VALUES: usize = 64;
