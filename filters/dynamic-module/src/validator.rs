use envoy_abi::cert_validator::{CertValidator, HandshakeHandle, keeps_handshakes_apart};
use envoy_abi::log;
use portcullis_core::fault;
use portcullis_core::x509::HandshakeVerifier;
use portcullis_filter_config::names;
use rustls_pki_types::UnixTime;

/// Records the client's chain with the connection.
pub(crate) struct Validator(HandshakeVerifier);

impl CertValidator for Validator {
    fn new(name: &[u8], config: &[u8]) -> Option<Self> {
        if name != names::CERT_VALIDATOR.as_bytes() {
            log::error("portcullis: the module has no certificate validator of this name");
            return None;
        }
        HandshakeVerifier::load(config).map(Validator).map_err(|error| log::error(&error.to_string())).ok()
    }

    fn verify(&self, chain: &[&[u8]], handshake: &mut HandshakeHandle) -> bool {
        chain.iter().for_each(|certificate| fault::strike_if_named("handshake", certificate));
        let Some(encoded) = self.0.verify(chain, UnixTime::now()) else { return false };
        // If the chain cannot be recorded, the filter has it from a header of Envoy's (`PeerSource::ForwardedClientCert`), or
        // finds a certificate without a chain and refuses the request.
        !keeps_handshakes_apart() || handshake.set_filter_state(names::CLIENT_CHAIN, &encoded)
    }

    fn digest(&self) -> &[u8] {
        self.0.digest()
    }
}
