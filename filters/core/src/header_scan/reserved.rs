/// Prefixes that only the gateway, or Envoy itself, may write.
const RESERVED_PREFIXES: [&[u8]; 4] = [IMPERSONATE, b"x-remote-", b"x-envoy-", b"x-portcullis-"];
pub(super) const IMPERSONATE: &[u8] = b"impersonate-";
pub(super) const FORWARDED_CLIENT_CERT: &[u8] = b"x-forwarded-client-cert";

/// Headers by which a client says where it is, and which Envoy neither reads nor writes. kube-apiserver's audit log would list
/// their addresses before the connection's (apimachinery, `net.SourceIPs`).
const FORWARDED: &[u8] = b"forwarded";
const REAL_IP: &[u8] = b"x-real-ip";

/// Headers that describe the request and go on with it: the scan reads them and removes none, whatever is reserved.
pub(super) const READ: [&[u8]; 9] = [
    b"authorization",
    b"connection",
    b"content-length",
    b"content-type",
    b"sec-websocket-protocol",
    b"upgrade",
    b"via",
    b"x-forwarded-for",
    b"x-request-id",
];

/// Names of headers that no client may send on: the built-in ones ([`is_reserved`]), and configured prefixes of names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserved<'a> {
    of_listener: &'a [Box<[u8]>],
    /// Empty where the listener has the same.
    of_cluster: &'a [Box<[u8]>],
}

impl<'a> Reserved<'a> {
    /// Those of a listener and those of a cluster. Both lists count: during an edit one of them may be older than the other.
    pub fn new(of_listener: &'a [Box<[u8]>], of_cluster: &'a [Box<[u8]>]) -> Self {
        Reserved { of_listener, of_cluster: if of_cluster == of_listener { &[] } else { of_cluster } }
    }

    /// Whether it is one of them, or looks like one.
    pub fn names(self, name: &[u8]) -> bool {
        is_reserved(name) || self.of_listener.iter().chain(self.of_cluster).any(|prefix| is_like(name, prefix))
    }
}

/// Whether a name can be reserved, as a prefix: a word in lower case that starts the name of no header which is not removed.
pub(crate) fn can_be_reserved(prefix: &str) -> bool {
    let is_word = prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    prefix.len() > 1 && is_word && !READ.iter().any(|name| is_like(name, prefix.as_bytes()))
}

/// Whether a header, or a look-alike with underscores, is one that no client may send on.
pub fn is_reserved(name: &[u8]) -> bool {
    // Most names of an honest request are settled by their first byte.
    match name.first() {
        Some(b'f') => name == FORWARDED,
        Some(b'i') => is_like(name, IMPERSONATE),
        Some(b'x') => {
            let is = |whole: &[u8]| name.len() == whole.len() && is_like(name, whole);
            RESERVED_PREFIXES.iter().any(|prefix| is_like(name, prefix)) || is(FORWARDED_CLIENT_CERT) || is(REAL_IP)
        }
        _ => false,
    }
}

/// Whether a name starts with the prefix, or with the prefix written with underscores.
fn is_like(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| {
        start.iter().zip(prefix).all(|(byte, wanted)| byte == wanted || (*wanted == b'-' && *byte == b'_'))
    })
}
