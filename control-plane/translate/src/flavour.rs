use portcullis_filter_config::PeerSource;

/// What differs between the Envoys of one gateway in how the same objects are told to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flavour {
    /// How the filter learns a client's certificate.
    pub peer_source: PeerSource,
}

impl Flavour {
    /// The flavour of an Envoy of this version; of one that does not tell its version the safest.
    ///
    /// Envoy before 1.39 keeps the connection that a validator judges in a place that all workers share, so that of two
    /// handshakes at the same time one could be given the other's certificate (envoyproxy/envoy#45597).
    pub fn of_envoy(version: Option<(u32, u32)>) -> Self {
        let has_own_place = version.is_some_and(|version| version >= (1, 39));
        Self { peer_source: if has_own_place { PeerSource::Validator } else { PeerSource::ForwardedClientCert } }
    }
}
