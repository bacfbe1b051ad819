use portcullis_api::Cluster;

use crate::digest::sha256_hex;
use crate::generation::{Generation, endpoints};

/// Who a cluster is, for caches of credentials: they start empty with each generation of the object, and when its servers or
/// the CA that signs for its users change. Disabling a server changes nothing.
pub(crate) fn identity(cluster: &Cluster, instance: &str, generation: &Generation) -> String {
    let client_ca = cluster.client_ca.as_ref().map_or(&b""[..], |pem| pem.as_slice());
    let hash = sha256_hex([generation.whole().as_bytes(), endpoints(cluster).as_bytes(), client_ca]);
    format!("{instance}/-/{}/{hash}", cluster.name)
}
