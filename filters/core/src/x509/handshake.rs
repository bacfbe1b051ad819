use portcullis_filter_config::ValidatorConfig;
use rustls_pki_types::UnixTime;

use super::{ClientCa, ClientCaError, ClientChain, encode_chain, verify};

/// Judges the client's chain in a TLS handshake. By default it accepts any chain, as kube-apiserver's handshake does: its user is
/// found at every request, so that expiry and a change of CA act on open connections. With a CA it ends the handshake of a
/// certificate that does not verify.
#[derive(Debug)]
pub struct HandshakeVerifier {
    client_ca: Option<ClientCa>,
    digest: Vec<u8>,
}

/// A configuration that cannot be used. Its text is for the proxy's log.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeConfigError {
    /// Not the JSON that was expected.
    #[error("portcullis: the validator's configuration does not parse: {0}")]
    Parse(#[from] serde_json::Error),
    /// The client CA bundle.
    #[error("portcullis: {0}")]
    ClientCa(#[from] ClientCaError),
}

impl HandshakeVerifier {
    /// Compiles a [`ValidatorConfig`] from JSON.
    ///
    /// # Errors
    /// [`HandshakeConfigError`], the control plane's fault.
    pub fn load(config: &[u8]) -> Result<Self, HandshakeConfigError> {
        let config: ValidatorConfig = serde_json::from_slice(config)?;
        let client_ca = config.client_ca.as_deref().map(ClientCa::from_pem).transpose()?;
        let mut digest = b"portcullis keeps the chain".to_vec();
        digest.extend(client_ca.iter().flat_map(|ca| ca.digest()));
        Ok(HandshakeVerifier { client_ca, digest })
    }

    /// The chain to record with the connection ([`encode_chain`]). `None` ends the handshake.
    pub fn verify(&self, chain: &[&[u8]], now: UnixTime) -> Option<Vec<u8>> {
        let encoded = encode_chain(chain.iter().copied());
        let is_trusted = |ca| ClientChain::decode(&encoded).is_ok_and(|chain| verify(&chain, ca, now).is_ok());
        self.client_ca.as_ref().is_none_or(is_trusted).then_some(encoded)
    }

    /// Differs where sessions must not be resumed across configurations.
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }
}
