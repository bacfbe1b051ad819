use envoy_abi::cert_validator::{CertValidator, HandshakeHandle};
use portcullis_core::x509::encode_chain;
use portcullis_filter_config::names;

/// Accepts any chain, as kube-apiserver's handshake does, and keeps it with the connection. Whether it names somebody is
/// judged at every request, so that expiry and a change of CA act on open connections.
pub(crate) struct KeepChain;

impl CertValidator for KeepChain {
    fn new(name: &[u8], _config: &[u8]) -> Option<Self> {
        (name == names::CERT_VALIDATOR.as_bytes()).then_some(KeepChain)
    }

    fn verify(&self, chain: &[&[u8]], handshake: &mut HandshakeHandle) -> bool {
        handshake.set_filter_state(names::CLIENT_CHAIN, &encode_chain(chain.iter().copied()))
    }

    fn digest(&self) -> &'static [u8] {
        b"portcullis keeps the chain"
    }
}
