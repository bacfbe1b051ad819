use envoy_abi::cert_validator::{CertValidator, HandshakeHandle, keeps_handshakes_apart};
use envoy_abi::log;
use portcullis_core::x509::{ClientCa, ClientChain, encode_chain, verify};
use portcullis_filter_config::{ValidatorConfig, names};
use rustls_pki_types::UnixTime;

use crate::fault;

/// Records the client's chain with the connection. Its user is found at every request, so that expiry and a change of CA act on
/// open connections. By default it accepts any chain, as kube-apiserver's handshake does; with a CA it ends the handshake of a
/// certificate that does not verify.
pub(crate) struct KeepChain {
    client_ca: Option<ClientCa>,
    digest: Vec<u8>,
}

impl CertValidator for KeepChain {
    fn new(name: &[u8], config: &[u8]) -> Option<Self> {
        if name != names::CERT_VALIDATOR.as_bytes() {
            log::error("portcullis: the module has no certificate validator of this name");
            return None;
        }
        let config: ValidatorConfig = serde_json::from_slice(config)
            .map_err(|error| log::error(&format!("portcullis: the validator's configuration does not parse: {error}")))
            .ok()?;
        let client_ca = config.client_ca.as_deref().map(ClientCa::from_pem).transpose();
        let client_ca = client_ca.map_err(|error| log::error(&format!("portcullis: {error}"))).ok()?;
        let mut digest = b"portcullis keeps the chain".to_vec();
        digest.extend(client_ca.iter().flat_map(|ca| ca.digest()));
        Some(KeepChain { client_ca, digest })
    }

    fn verify(&self, chain: &[&[u8]], handshake: &mut HandshakeHandle) -> bool {
        chain.iter().for_each(|certificate| fault::strike_if_named("handshake", certificate));
        let encoded = encode_chain(chain.iter().copied());
        let is_trusted = |ca| {
            let chain = ClientChain::decode(&encoded);
            chain.is_ok_and(|chain| verify(&chain, ca, UnixTime::now()).is_ok())
        };
        if !self.client_ca.as_ref().is_none_or(is_trusted) {
            return false;
        }
        // Where the chain cannot be kept, the filter has it from a header of Envoy's (`PeerSource::ForwardedClientCert`), or
        // finds a certificate without a chain and refuses the request.
        !keeps_handshakes_apart() || handshake.set_filter_state(names::CLIENT_CHAIN, &encoded)
    }

    fn digest(&self) -> &[u8] {
        &self.digest
    }
}
