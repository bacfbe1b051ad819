use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, Script, TlsCertificates, TlsMode,
};

use crate::address::StoreAddress;
use crate::clock::Reading;

/// The time for a connection, and that for an answer. A gateway's lease is longer than both.
const CONNECT: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(1);
/// The time after which the store forgets limits that nothing reports.
const KEPT_MILLISECONDS: u64 = 60_000;

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

/// Why the store is not used at present. It is tried again; gateways go on by what they have, and then by their local limits.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operator has to act.
    #[error("cannot read {0}")]
    File(PathBuf, #[source] io::Error),
    /// The operator has to act.
    #[error("cannot use the address or the certificates")]
    Settings(#[source] RedisError),
    /// The server's fault, the network's, or that of the user, the password or the certificates.
    #[error("cannot connect")]
    Connect(#[source] RedisError),
    /// As [`StoreError::Connect`].
    #[error("connecting takes too long")]
    Slow,
    /// Sentinels will name another one, or the address is that of a replica.
    #[error("the server is no master")]
    NotMaster,
    /// The server's fault or the network's, or the user may not do it.
    #[error("cannot read limits")]
    Load(#[source] RedisError),
    /// As [`StoreError::Load`]; also a master with fewer replicas than it has to have.
    #[error("cannot write limits")]
    Save(#[source] RedisError),
    /// Other control planes changed the same limits at the same time, again and again.
    #[error("other control planes change the same limits without end")]
    Contended,
}

/// A connection to one server. It ends with the server's role and with its process.
pub(crate) struct StoreConnection {
    server: MultiplexedConnection,
    /// The process. Of that which another one wrote a part may be lost.
    run_id: String,
    generation_key: String,
    last: Option<Reading>,
}

/// A cluster's limits as they are stored.
pub(crate) struct Stored {
    /// Another one with each write; empty for none.
    pub(crate) token: String,
    /// `None` if they are of another process, or of another time of this one's clock.
    pub(crate) state: Option<Vec<u8>>,
}

/// Stored limits, and what they may be written back by.
pub(crate) struct Loaded {
    pub(crate) time: Duration,
    pub(crate) origin: String,
    pub(crate) all: Vec<Stored>,
}

static LOAD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local all = {time[1], time[2], redis.call('GET', KEYS[1]) or ''}
         for i = 2, #KEYS do
           for _, value in ipairs({'token', 'origin', 'state'}) do
             all[#all + 1] = redis.call('HGET', KEYS[i], value) or ''
           end
         end
         return all",
    )
});

/// Begins a generation if the last server that control planes wrote to was another one: this one may be a master for the second time,
/// and what it wrote at first is no older than what it lost.
static ENTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] then
           redis.call('SET', KEYS[1], ARGV[1])
           redis.call('INCR', KEYS[2])
         end",
    )
});

/// Writes what nothing has changed since it was read. ARGV: lifetime, origin, then for each key the tokens before and after, and
/// the state.
static SAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local saved = {}
         for i = 1, #KEYS do
           local a = 3 * i
           saved[i] = 0
           if (redis.call('HGET', KEYS[i], 'token') or '') == ARGV[a] then
             redis.call('HSET', KEYS[i], 'token', ARGV[a + 1], 'origin', ARGV[2], 'state', ARGV[a + 2])
             redis.call('PEXPIRE', KEYS[i], ARGV[1])
             saved[i] = 1
           end
         end
         return saved",
    )
});

/// Takes reports for this control plane: KEYS are those of processes, ARGV the lifetime and the numbers of their reports.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local claimed = {}
         for i = 1, #KEYS do
           local last = redis.call('GET', KEYS[i])
           claimed[i] = 0
           if not last or tonumber(last) < tonumber(ARGV[i + 1]) then
             redis.call('SET', KEYS[i], ARGV[i + 1], 'PX', ARGV[1])
             claimed[i] = 1
           end
         end
         return claimed",
    )
});

impl StoreConnection {
    /// Connects to the server, or to the master that the sentinels name.
    pub(crate) async fn open(address: &StoreAddress, files: &StoreFiles, prefix: &str) -> Result<Self, StoreError> {
        let client = client(address, files).await?;
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(ANSWER));
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut server = connected.map_err(StoreError::Connect)?;
        let info: String = redis::cmd("INFO").query_async(&mut server).await.map_err(StoreError::Connect)?;
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        if of("role:") != "master" {
            return Err(StoreError::NotMaster);
        }
        let run_id = of("run_id:").to_owned();
        let generation_key = format!("{prefix}:generation");
        let mut enter = ENTER.key(format!("{prefix}:server"));
        enter.key(&generation_key).arg(&run_id);
        enter.invoke_async::<()>(&mut server).await.map_err(StoreError::Save)?;
        Ok(Self { server, run_id, generation_key, last: None })
    }

    /// Whether each report, a number of a process, is the newest one that any control plane has taken.
    pub(crate) async fn claim(&mut self, reports: &[(String, u64)]) -> Result<Vec<bool>, StoreError> {
        let mut claim = CLAIM.prepare_invoke();
        claim.arg(KEPT_MILLISECONDS);
        for (key, number) in reports {
            claim.key(key).arg(*number);
        }
        claim.invoke_async(&mut self.server).await.map_err(StoreError::Save)
    }

    /// Reads limits with the store's time. If its clock was set, nothing that was written before is read any more.
    pub(crate) async fn load(&mut self, keys: &[String]) -> Result<Loaded, StoreError> {
        let (reading, generation, values) = self.read(keys).await?;
        let has_stepped = self.last.replace(reading).is_some_and(|last| reading.stepped_since(&last));
        let generation = if has_stepped { self.next_generation().await? } else { generation };
        let origin = format!("{}.{generation}", self.run_id);
        let stored = values.as_chunks::<3>().0.iter().map(|[token, by, state]| Stored {
            token: String::from_utf8_lossy(token).into_owned(),
            state: (by == origin.as_bytes()).then(|| state.clone()),
        });
        Ok(Loaded { time: reading.time, all: stored.collect(), origin })
    }

    async fn read(&mut self, keys: &[String]) -> Result<(Reading, String, Vec<Vec<u8>>), StoreError> {
        let mut load = LOAD.key(&self.generation_key);
        keys.iter().for_each(|key| _ = load.key(key));
        let asked = Instant::now();
        let answer: Vec<Vec<u8>> = load.invoke_async(&mut self.server).await.map_err(StoreError::Load)?;
        let had = Instant::now();
        let unreadable = || StoreError::Load(RedisError::from((redis::ErrorKind::UnexpectedReturnType, "no time")));
        let text = |at: usize| answer.get(at).and_then(|value| std::str::from_utf8(value).ok());
        let number = |at: usize| text(at).and_then(|text| text.parse::<u64>().ok()).ok_or_else(unreadable);
        let time = Duration::from_secs(number(0)?).saturating_add(Duration::from_micros(number(1)?));
        let generation = text(2).unwrap_or_default().to_owned();
        Ok((Reading { asked, had, time }, generation, answer.into_iter().skip(3).collect()))
    }

    async fn next_generation(&mut self) -> Result<String, StoreError> {
        tracing::warn!("the clock of the store of limits was set; for four seconds gateways keep what they have");
        redis::cmd("INCR").arg(&self.generation_key).query_async(&mut self.server).await.map_err(StoreError::Save)
    }

    /// Writes limits back. Returns whether nothing had changed each of them meanwhile; what was changed is not written.
    pub(crate) async fn save(&mut self, origin: &str, all: &[StateWrite]) -> Result<Vec<bool>, StoreError> {
        let mut save = SAVE.prepare_invoke();
        save.arg(KEPT_MILLISECONDS).arg(origin);
        for change in all {
            save.key(&change.key).arg(&change.before).arg(&change.after).arg(change.state.as_slice());
        }
        save.invoke_async(&mut self.server).await.map_err(StoreError::Save)
    }
}

/// Limits to be written.
pub(crate) struct StateWrite {
    pub(crate) key: String,
    /// The token that was read, and the one that is written.
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) state: Vec<u8>,
}

async fn client(address: &StoreAddress, files: &StoreFiles) -> Result<Client, StoreError> {
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
