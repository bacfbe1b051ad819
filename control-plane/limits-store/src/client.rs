//! The client of one store: its address, user, password and certificates, read anew with each connection.

use std::path::{Path, PathBuf};

use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates, TlsMode,
};

use crate::address::StoreAddress;
use crate::error::StoreError;

/// Files with what a store is asked for by, read anew with each connection.
#[derive(Clone, Debug, Default)]
pub struct StoreFiles {
    /// The password of the user in the address.
    pub password: Option<PathBuf>,
    /// The sentinels' password.
    pub sentinel_password: Option<PathBuf>,
    /// The CAs of the servers' certificates, PEM; the machine's without.
    pub ca: Option<PathBuf>,
    /// A client certificate and its key, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The client of the server, or of the master that the sentinels name.
pub(crate) async fn client(address: &StoreAddress, files: &StoreFiles) -> Result<Client, StoreError> {
    let password = read_text(files.password.as_deref()).await?;
    let certificates = certificates(address, files).await?;
    let Some(service) = &address.service else {
        let mut settings = RedisConnectionInfo::default().set_db(address.database);
        if !address.user.is_empty() {
            settings = settings.set_username(&address.user);
        }
        if let Some(password) = &password {
            settings = settings.set_password(password);
        }
        let server = address.servers().next().map(IntoConnectionInfo::into_connection_info);
        let server = server.ok_or(StoreError::NotMaster)?.map_err(StoreError::Settings)?.set_redis_settings(settings);
        return match certificates {
            Some(certificates) => Client::build_with_tls(server, certificates),
            None => Client::open(server),
        }
        .map_err(StoreError::Settings);
    };
    let mut builder = SentinelClientBuilder::new(address.servers(), service, SentinelServerType::Master)
        .map_err(StoreError::Settings)?
        .set_client_to_redis_db(address.database);
    if !address.user.is_empty() {
        builder = builder.set_client_to_redis_username(&address.user);
    }
    if let Some(password) = &password {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(password) = read_text(files.sentinel_password.as_deref()).await? {
        builder = builder.set_client_to_sentinel_password(password);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    let mut sentinels = builder.build().map_err(StoreError::Settings)?;
    sentinels.async_get_client().await.map_err(StoreError::Connect)
}

impl StoreAddress {
    fn servers(&self) -> impl Iterator<Item = ConnectionAddr> {
        self.hosts.iter().map(|(host, port)| match self.is_tls {
            true => ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host.clone(), *port),
        })
    }
}

async fn certificates(address: &StoreAddress, files: &StoreFiles) -> Result<Option<TlsCertificates>, StoreError> {
    if !address.is_tls {
        return Ok(None);
    }
    let root_cert = match &files.ca {
        Some(path) => Some(read(path).await?),
        None => None,
    };
    let client_tls = match &files.certificate {
        Some((certificate, key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate).await?, client_key: read(key).await? })
        }
        None => None,
    };
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}

async fn read_text(path: Option<&Path>) -> Result<Option<String>, StoreError> {
    let Some(path) = path else { return Ok(None) };
    let text = tokio::fs::read_to_string(path).await.map_err(|error| StoreError::File(path.to_owned(), error))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

async fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    tokio::fs::read(path).await.map_err(|error| StoreError::File(path.to_owned(), error))
}
