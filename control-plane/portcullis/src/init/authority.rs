use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::InitError;
use super::files::Layout;

/// Validity of a CA. A new one is a new store for its clients.
const CA_DAYS: i64 = 3650;
/// Validity of all other certificates.
const LEAF_DAYS: i64 = 365;
/// A certificate that ends sooner is renewed by the next run.
const RENEW_DAYS: i64 = 90;
/// Clocks of other hosts may be behind.
const BACKDATED: Duration = Duration::minutes(5);

/// When a run is, and whether it renews everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    pub(super) now: OffsetDateTime,
    pub(super) all: bool,
}

/// A certificate to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) common_name: String,
    /// The groups of a Kubernetes user.
    pub(super) organization: Option<String>,
    /// DNS names and IP addresses.
    pub(super) names: Vec<String>,
    pub(super) usages: &'static [ExtendedKeyUsagePurpose],
}

impl Wanted {
    pub(super) fn client(common_name: &str, organization: Option<&str>) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organization: organization.map(str::to_owned),
            names: Vec::new(),
            usages: &[ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// Certificate and key in PEM, one behind the other.
    fn issue(&self, issuer: &Issuer<'_, KeyPair>, now: OffsetDateTime) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::new(self.names.clone())?;
        params.distinguished_name = subject(&self.common_name, self.organization.as_deref());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = self.usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (now - BACKDATED, now + Duration::days(LEAF_DAYS));
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, issuer)?;
        Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
    }

    /// Whether a certificate is of this subject and these names, and has time left.
    fn is(&self, pem: &[u8], now: OffsetDateTime) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(pem) else { return false };
        let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
        let mut attributes = certificate.subject().iter_common_name();
        let common_name = attributes.next().and_then(|one| one.as_str().ok());
        let organization = certificate.subject().iter_organization().next().and_then(|one| one.as_str().ok());
        let mut wanted = self.names.clone();
        wanted.sort();
        common_name == Some(self.common_name.as_str())
            && organization == self.organization.as_deref()
            && names(&certificate) == wanted
            && certificate.validity().not_after.timestamp() > (now + Duration::days(RENEW_DAYS)).unix_timestamp()
    }
}

/// The DNS names and IP addresses of a certificate, in order.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let all = extension.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    let mut names: Vec<String> = all
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(|ip| std::net::Ipv4Addr::from(ip).to_string()),
                _ => <[u8; 16]>::try_from(*bytes).ok().map(|ip| std::net::Ipv6Addr::from(ip).to_string()),
            },
            _ => None,
        })
        .collect();
    names.sort();
    names
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}

/// A CA of the store.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: Vec<u8>,
}

impl Authority {
    /// Opens the CA `authority/NAME.crt`, or makes it.
    pub(super) fn open(layout: &mut Layout, name: &str, renewal: Renewal) -> Result<Self, InitError> {
        let failed = |source| InitError::Certificate { name: name.to_owned(), source };
        let (key_file, certificate_file) = (format!("authority/{name}.key"), format!("authority/{name}.crt"));
        let key = layout
            .write_once(&key_file, 0o600, || Ok(KeyPair::generate().map_err(failed)?.serialize_pem().into_bytes()))?;
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&key)).map_err(failed)?;
        let params = params(name, renewal.now);
        let pem = layout.write_once(&certificate_file, 0o644, || {
            Ok(params.self_signed(&key).map_err(failed)?.pem().into_bytes())
        })?;
        if !has_year(&pem, renewal.now) {
            return Err(InitError::EndingAuthority(layout.path(&certificate_file)));
        }
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Its certificate.
    pub(super) fn pem(&self) -> &[u8] {
        &self.pem
    }

    /// Has a certificate with its key in one file, so that the two are always of one pair: the present one if it will do.
    pub(super) fn have(
        &self,
        layout: &mut Layout,
        file: &str,
        wanted: &Wanted,
        renewal: Renewal,
    ) -> Result<Vec<u8>, InitError> {
        if let Some(pem) = layout.read(file)?.filter(|pem| !renewal.all && wanted.is(pem, renewal.now)) {
            layout.write(file, &pem, 0o600)?;
            return Ok(pem);
        }
        let pem = wanted.issue(&self.issuer, renewal.now);
        let pem = pem.map_err(|source| InitError::Certificate { name: file.to_owned(), source })?.into_bytes();
        layout.write(file, &pem, 0o600)?;
        Ok(pem)
    }

    /// As [`Authority::have`], within a file that is made of it.
    pub(super) fn renewed(&self, pem: &[u8], wanted: &Wanted, renewal: Renewal) -> Result<Vec<u8>, InitError> {
        if !renewal.all && wanted.is(pem, renewal.now) {
            return Ok(pem.to_owned());
        }
        let issued = wanted.issue(&self.issuer, renewal.now);
        issued
            .map(String::into_bytes)
            .map_err(|source| InitError::Certificate { name: wanted.common_name.clone(), source })
    }
}

/// A CA but for its key: with the same name and key it issues the same after each start.
fn params(name: &str, now: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(&format!("portcullis store {name}"), None);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (now - BACKDATED, now + Duration::days(CA_DAYS));
    params
}

/// Whether a CA outlives the certificates that it would issue now.
fn has_year(pem: &[u8], now: OffsetDateTime) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem) else { return false };
    X509Certificate::from_der(&der).is_ok_and(|(_, certificate)| {
        certificate.validity().not_after.timestamp() >= (now + Duration::days(LEAF_DAYS)).unix_timestamp()
    })
}
