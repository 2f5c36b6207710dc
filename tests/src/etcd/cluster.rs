//! Members that elect a leader.

use std::time::Duration;

use super::server::{EtcdOptions, EtcdServer};

/// A cluster on the loopback interface, stopped when dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdServer>,
}

impl EtcdCluster {
    /// Starts so many members and waits until all serve.
    ///
    /// # Panics
    ///
    /// As [`EtcdServer::start`].
    #[must_use]
    pub fn start(members: usize) -> Self {
        let options =
            EtcdOptions::new().set("election-timeout", "500").set("heartbeat-interval", "50");
        let named = |at| EtcdServer::unstarted(&format!("m{at}"), options.clone());
        let mut members: Vec<_> = (0..members).map(named).collect();
        let all = members.iter().map(EtcdServer::as_member).collect::<Vec<_>>().join(",");
        for member in &mut members {
            member.join(all.clone());
            member.launch().expect("a process");
        }
        for member in &mut members {
            if let Err(log) = member.wait() {
                panic!("etcd did not start:\n{log}");
            }
        }
        Self { members }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// One member.
    #[must_use]
    pub fn member(&self, at: usize) -> &EtcdServer {
        &self.members[at]
    }

    /// The same, to be killed.
    pub fn member_mut(&mut self, at: usize) -> &mut EtcdServer {
        &mut self.members[at]
    }

    /// The number of the member that leads.
    ///
    /// # Panics
    ///
    /// If none does for 30 s.
    #[must_use]
    pub fn leader(&self) -> usize {
        for _ in 0..3_000 {
            let leads = |member: &EtcdServer| {
                member.member_and_leader().is_some_and(|(member, leader)| member == leader)
            };
            if let Some(leader) = self.members.iter().position(leads) {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the cluster has no leader");
    }

    /// `etcd://…` with all members.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|one| one.addr().to_string()).collect();
        format!("etcd://{}", hosts.join(","))
    }
}
