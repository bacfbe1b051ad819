use std::fmt::Write;

use portcullis_api::Cluster;
use ring::digest::{Context, SHA256};

use crate::generation::Generation;

/// The SHA-256 of a list, in hexadecimal. Every part is preceded by its length, so that no two lists run together.
pub(crate) fn sha256_hex<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    hex(context.finish().as_ref())
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Who a cluster is, for caches of credentials: they start empty with each generation of the object, and when its servers or
/// the CA that signs for its users change. Disabling a server changes nothing.
pub(crate) fn identity(cluster: &Cluster, instance: &str, generation: &Generation) -> String {
    let client_ca = cluster.client_ca.as_ref().map_or(&b""[..], |pem| pem.as_slice());
    let hash = sha256_hex([generation.whole().as_bytes(), endpoints(cluster).as_bytes(), client_ca]);
    format!("{instance}/-/{}/{hash}", cluster.name)
}

/// The addresses of all servers, disabled ones included.
pub(crate) fn endpoints(cluster: &Cluster) -> String {
    let servers: Vec<String> = cluster.servers.iter().map(|server| server.endpoint.to_string()).collect();
    servers.join(",")
}
