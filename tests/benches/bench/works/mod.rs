//! The works of the specification, each beside its rivals.

mod at_once;
pub(crate) mod database;
mod etcd;
pub(crate) mod handoff;
pub(crate) mod held;
mod layer;
mod linger;
mod one_process;
mod overload;
mod processes;
mod quorum;
mod scale;
mod sharing;
pub(crate) mod single;
mod sqlite;
mod told;
mod zookeeper;

use tests::mariadb::MariaDbServer;
use tests::postgres::PostgresServer;

use crate::arguments::Arguments;
use crate::report::Work;

/// The works in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Single,
    Layer,
    LayerMemory,
    ManyKeys,
    Hot64,
    Hot1000,
    Processes,
    Strict,
    Readers,
    Writer,
    Permits,
    AtOnce,
    HandOff,
    Linger,
    Held,
    Told,
    Quorum,
    Overload,
    Burst,
    ZkSingle,
    ZkHot64,
    ZkStrict,
    ZkHandOff,
    SqliteSingle,
    SqliteHot64,
    SqliteProcesses,
    PostgresSingle,
    PostgresHot64,
    PostgresProcesses,
    PostgresStopped,
    PostgresHeld,
    MariaDbSingle,
    MariaDbHot64,
    MariaDbProcesses,
    MariaDbStopped,
    MariaDbHeld,
    EtcdSingle,
    EtcdHot64,
    EtcdStrict,
    Scale,
}

const ALL: [Name; 40] = [
    Name::Single,
    Name::Layer,
    Name::LayerMemory,
    Name::ManyKeys,
    Name::Hot64,
    Name::Hot1000,
    Name::Processes,
    Name::Strict,
    Name::Readers,
    Name::Writer,
    Name::Permits,
    Name::AtOnce,
    Name::HandOff,
    Name::Linger,
    Name::Held,
    Name::Told,
    Name::Quorum,
    Name::Overload,
    Name::Burst,
    Name::ZkSingle,
    Name::ZkHot64,
    Name::ZkStrict,
    Name::ZkHandOff,
    Name::SqliteSingle,
    Name::SqliteHot64,
    Name::SqliteProcesses,
    Name::PostgresSingle,
    Name::PostgresHot64,
    Name::PostgresProcesses,
    Name::PostgresStopped,
    Name::PostgresHeld,
    Name::MariaDbSingle,
    Name::MariaDbHot64,
    Name::MariaDbProcesses,
    Name::MariaDbStopped,
    Name::MariaDbHeld,
    Name::EtcdSingle,
    Name::EtcdHot64,
    Name::EtcdStrict,
    Name::Scale,
];

/// The works of the wanted names, and for what is no name those that contain it; all if none is wanted.
pub(crate) fn selected(arguments: &Arguments) -> Vec<Name> {
    let is_name = |part: &str| ALL.iter().any(|name| name.name() == part);
    let is_meant = |name: &Name, part: &str| match is_name(part) {
        true => name.name() == part,
        false => name.name().contains(part),
    };
    let wanted = |name: &Name| {
        let names = &arguments.names;
        names.is_empty() || names.iter().any(|part| is_meant(name, part))
    };
    ALL.into_iter().filter(wanted).collect()
}

impl Name {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Name::Single => "single",
            Name::Layer => "layer",
            Name::LayerMemory => "layer-memory",
            Name::ManyKeys => "many-keys",
            Name::Hot64 => "hot-64",
            Name::Hot1000 => "hot-1000",
            Name::Processes => "processes",
            Name::Strict => "strict",
            Name::Readers => "readers",
            Name::Writer => "writer",
            Name::Permits => "permits",
            Name::AtOnce => "at-once",
            Name::HandOff => "handoff",
            Name::Linger => "linger",
            Name::Held => "held",
            Name::Told => "told",
            Name::Quorum => "quorum",
            Name::Overload => "overload",
            Name::Burst => "burst",
            Name::ZkSingle => "zk-single",
            Name::ZkHot64 => "zk-hot-64",
            Name::ZkStrict => "zk-strict",
            Name::ZkHandOff => "zk-handoff",
            Name::SqliteSingle => "sqlite-single",
            Name::SqliteHot64 => "sqlite-hot-64",
            Name::SqliteProcesses => "sqlite-processes",
            Name::PostgresSingle => "postgres-single",
            Name::PostgresHot64 => "postgres-hot-64",
            Name::PostgresProcesses => "postgres-processes",
            Name::PostgresStopped => "postgres-stopped",
            Name::PostgresHeld => "postgres-held",
            Name::MariaDbSingle => "mariadb-single",
            Name::MariaDbHot64 => "mariadb-hot-64",
            Name::MariaDbProcesses => "mariadb-processes",
            Name::MariaDbStopped => "mariadb-stopped",
            Name::MariaDbHeld => "mariadb-held",
            Name::EtcdSingle => "etcd-single",
            Name::EtcdHot64 => "etcd-hot-64",
            Name::EtcdStrict => "etcd-strict",
            Name::Scale => "scale",
        }
    }

    pub(crate) async fn run(self, arguments: &Arguments) -> Work {
        match self {
            Name::Single => single::run(arguments).await,
            Name::Layer => layer::over_redis(arguments).await,
            Name::LayerMemory => layer::over_memory(arguments).await,
            Name::ManyKeys => one_process::many_keys(arguments).await,
            Name::Hot64 => one_process::hot_64(arguments).await,
            Name::Hot1000 => one_process::hot_1000(arguments).await,
            Name::Processes => processes::batched(arguments).await,
            Name::Strict => processes::strict(arguments).await,
            Name::Readers => sharing::readers(arguments).await,
            Name::Writer => sharing::writer(arguments).await,
            Name::Permits => sharing::permits(arguments).await,
            Name::AtOnce => at_once::run(arguments).await,
            Name::HandOff => handoff::run(arguments).await,
            Name::Linger => linger::run(arguments).await,
            Name::Held => held::run(arguments).await,
            Name::Told => told::run(arguments).await,
            Name::Quorum => quorum::run(arguments).await,
            Name::Overload => overload::run(arguments).await,
            Name::Burst => overload::burst(arguments).await,
            Name::ZkSingle => zookeeper::single::run(arguments).await,
            Name::ZkHot64 => zookeeper::hot::run(arguments).await,
            Name::ZkStrict => zookeeper::processes::strict(arguments).await,
            Name::ZkHandOff => zookeeper::processes::hand_off(arguments).await,
            Name::SqliteSingle => sqlite::single(arguments).await,
            Name::SqliteHot64 => sqlite::hot_64(arguments).await,
            Name::SqliteProcesses => sqlite::processes(arguments).await,
            Name::PostgresSingle => database::single::<PostgresServer>(arguments).await,
            Name::PostgresHot64 => database::hot_64::<PostgresServer>(arguments).await,
            Name::PostgresProcesses => database::processes::<PostgresServer>(arguments).await,
            Name::PostgresStopped => database::stopped::<PostgresServer>(arguments).await,
            Name::PostgresHeld => database::held::<PostgresServer>(arguments).await,
            Name::MariaDbSingle => database::single::<MariaDbServer>(arguments).await,
            Name::MariaDbHot64 => database::hot_64::<MariaDbServer>(arguments).await,
            Name::MariaDbProcesses => database::processes::<MariaDbServer>(arguments).await,
            Name::MariaDbStopped => database::stopped::<MariaDbServer>(arguments).await,
            Name::MariaDbHeld => database::held::<MariaDbServer>(arguments).await,
            Name::EtcdSingle => etcd::single(arguments).await,
            Name::EtcdHot64 => etcd::hot_64(arguments).await,
            Name::EtcdStrict => etcd::strict(arguments).await,
            Name::Scale => scale::run(arguments).await,
        }
    }

    /// Whether it runs on etcd, beside Go's client.
    pub(crate) fn needs_go(self) -> bool {
        matches!(self, Name::EtcdSingle | Name::EtcdHot64 | Name::EtcdStrict)
    }

    /// Whether it runs on ZooKeeper, beside Curator.
    pub(crate) fn needs_java(self) -> bool {
        matches!(self, Name::ZkSingle | Name::ZkHot64 | Name::ZkStrict | Name::ZkHandOff)
    }
}
