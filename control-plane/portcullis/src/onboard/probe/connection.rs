use std::sync::Arc;
use std::time::Duration;

use portcullis_api::{Cluster, Endpoint, PeerName, Trust};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::report::{CheckFailure, CheckValue};

/// How long a connection, and a handshake on it, may take.
const CONNECT: Duration = Duration::from_secs(5);

impl CheckValue for TcpStream {
    fn detail(&self) -> Option<String> {
        Some(self.peer_addr().map(|address| address.to_string()).unwrap_or_default())
    }
}

pub(super) async fn reach(endpoint: &Endpoint) -> Result<TcpStream, CheckFailure> {
    let hint = "is the address right, and does every firewall on the way let it through? retry when it does";
    match timeout(CONNECT, TcpStream::connect(endpoint.to_string())).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(CheckFailure::new(error.to_string(), hint)),
        Err(_) => Err(CheckFailure::new(format!("no connection within {CONNECT:?}"), hint)),
    }
}

/// Verifies the server's certificate with the CA and the name that the gateway verifies it with.
pub(super) async fn verify(stream: TcpStream, cluster: &Cluster) -> Result<String, CheckFailure> {
    let Trust::Bundle(bundle) = &cluster.trust else {
        return Ok("not verified, as spec.clientConfig.insecure wants".to_owned());
    };
    let unusable = |error: String| CheckFailure::new(error, "correct upstreamCA (--upstream-ca) of the object");
    let config = client_config(bundle.as_slice()).map_err(unusable)?;
    let (name, shown) = match &cluster.peer_name {
        PeerName::Dns(name) => {
            (ServerName::try_from(name.clone()).map_err(|error| unusable(error.to_string()))?, name.clone())
        }
        PeerName::Ip(ip) => (ServerName::from(*ip), ip.to_string()),
    };
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    match timeout(CONNECT, handshake).await {
        Ok(Ok(_)) => Ok(format!("of a trusted CA, for {shown}")),
        Ok(Err(error)) => Err(explained(&error, &shown)),
        Err(_) => {
            let hint = "does something else than a kube-apiserver listen there? retry when the server is not busy";
            Err(CheckFailure::new(format!("no handshake within {CONNECT:?}"), hint))
        }
    }
}

fn client_config(bundle: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle) {
        roots.add(root.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn explained(error: &std::io::Error, name: &str) -> CheckFailure {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let hint = match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "upstreamCA (--upstream-ca) is not the CA of this server's certificate: take the CA from the cluster's kubeconfig"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!("the certificate is not for {name}: set clientConfig.serverName (--server-name) to a name in it"),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "the server's certificate has expired: renew it there, then retry".to_owned(),
        _ => "does a kube-apiserver listen there, with TLS? retry if it was restarting".to_owned(),
    };
    CheckFailure::new(error.to_string(), hint)
}
