use portcullis_core::x509::ClientCa;

/// Whether the filter can use these CAs of clients.
///
/// # Errors
/// The reason, for the writer of the object.
pub(crate) fn check_client_ca(pem: &str) -> Result<(), String> {
    ClientCa::from_pem(pem).map(drop).map_err(|error| error.to_string())
}
