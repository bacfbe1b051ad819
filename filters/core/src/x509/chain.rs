use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// The most certificates that a client may present.
pub const MAX_CERTIFICATES: usize = 8;
/// The most bytes of DER that a client may present.
pub const MAX_BYTES: usize = 32 * 1024;

/// Marks a chain that was too large to keep: a credential that was presented and cannot succeed.
const TOO_LARGE: &[u8] = b"too large";

/// Why a chain that the validator kept is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The client presented more certificates or bytes than are ever looked at. The client's fault.
    #[error("the certificate chain is too large")]
    TooLarge,
    /// The bytes were not written by [`encode`]. The gateway's fault.
    #[error("the certificate chain is not readable")]
    Malformed,
}

/// A client's certificate chain as it travels from the handshake to the requests of its connection: a digest of all of it,
/// then each certificate behind its length.
#[derive(Clone, Copy, Debug)]
pub struct ClientChain<'a> {
    digest: &'a [u8; SHA256_OUTPUT_LEN],
    certificates: &'a [u8],
}

/// Writes a chain, leaf first. The digest is made here, once for a connection, so that no request has to.
pub fn encode<'a>(certificates: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let bytes: usize = certificates.clone().map(<[u8]>::len).sum();
    if certificates.len() > MAX_CERTIFICATES || bytes > MAX_BYTES {
        return TOO_LARGE.to_vec();
    }
    let mut body = Vec::with_capacity(bytes.saturating_add(4 * MAX_CERTIFICATES));
    for certificate in certificates {
        let len = u32::try_from(certificate.len()).unwrap_or(u32::MAX);
        body.extend_from_slice(&len.to_be_bytes());
        body.extend_from_slice(certificate);
    }
    let mut encoded = digest(&SHA256, &body).as_ref().to_vec();
    encoded.append(&mut body);
    encoded
}

impl<'a> ClientChain<'a> {
    /// Reads what [`encode`] wrote.
    ///
    /// # Errors
    /// [`ChainError::TooLarge`] is the client's fault, [`ChainError::Malformed`] the gateway's.
    pub fn decode(encoded: &'a [u8]) -> Result<Self, ChainError> {
        if encoded == TOO_LARGE {
            return Err(ChainError::TooLarge);
        }
        let (digest, certificates) = encoded.split_first_chunk().ok_or(ChainError::Malformed)?;
        let chain = ClientChain { digest, certificates };
        if chain.leaf().is_empty() { Err(ChainError::Malformed) } else { Ok(chain) }
    }

    /// SHA-256 over all certificates: equal chains have equal digests, whatever the connection.
    pub fn digest(&self) -> &'a [u8; SHA256_OUTPUT_LEN] {
        self.digest
    }

    /// The client's own certificate.
    pub fn leaf(&self) -> &'a [u8] {
        self.certificates().next().unwrap_or_default()
    }

    /// The certificates behind the leaf.
    pub fn intermediates(&self) -> impl Iterator<Item = &'a [u8]> {
        self.certificates().skip(1)
    }

    fn certificates(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.certificates;
        std::iter::from_fn(move || {
            let (len, tail) = rest.split_first_chunk()?;
            let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
            let (certificate, tail) = tail.split_at_checked(len)?;
            rest = tail;
            Some(certificate)
        })
    }
}
