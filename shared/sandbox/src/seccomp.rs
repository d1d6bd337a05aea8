//! The system calls that a guest may make; every other looks as if the kernel did not have it.
//!
//! A list of what is allowed, for one of what is refused forgets what the next kernel brings. Libraries ask for newer calls
//! first and fall back when they are told that there are none.

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    sock_filter,
};

/// Flags of `clone` that make namespaces.
const NEW_NAMESPACES: u64 = 0x7e02_0080;

/// The filter for this machine's architecture as the kernel reads it.
///
/// # Errors
/// Says so where the architecture is none that the compiler of filters knows.
pub(crate) fn filter() -> Result<Vec<u8>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let compiled = rules().and_then(|rules| {
        let absent = SeccompAction::Errno(libc::ENOSYS as u32);
        SeccompFilter::new(rules, absent, SeccompAction::Allow, arch)
    });
    let program: Vec<sock_filter> = compiled
        .and_then(TryInto::try_into)
        .map_err(|error| error.to_string())?;
    Ok(program.iter().flat_map(bytes).collect())
}

fn bytes(instruction: &sock_filter) -> [u8; 8] {
    let [code, code_high] = instruction.code.to_ne_bytes();
    let [a, b, c, d] = instruction.k.to_ne_bytes();
    [code, code_high, instruction.jt, instruction.jf, a, b, c, d]
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let is = |index, operator, value| SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value);
    let no_namespace = is(0, SeccompCmpOp::MaskedEq(NEW_NAMESPACES), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespace])?]);
    let local = is(0, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![local.clone()])?]);
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![local])?]);
    // Typing into the terminal of whoever started the grader.
    let untyped = vec![
        is(1, SeccompCmpOp::Ne, libc::TIOCSTI)?,
        is(1, SeccompCmpOp::Ne, libc::TIOCLINUX)?,
    ];
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(untyped)?]);
    Ok(rules)
}

/// What every architecture has.
#[rustfmt::skip]
const ALLOWED: &[i64] = &[
    // Files
    libc::SYS_openat, libc::SYS_close, libc::SYS_close_range, libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev,
    libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2,
    libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_getdents64, libc::SYS_readlinkat, libc::SYS_mkdirat,
    libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_linkat, libc::SYS_symlinkat, libc::SYS_fchmod,
    libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_utimensat, libc::SYS_truncate, libc::SYS_ftruncate,
    libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range,
    libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_tee, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_fcntl, libc::SYS_flock, libc::SYS_umask, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir,
    libc::SYS_pipe2, libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_flistxattr, libc::SYS_openat2, libc::SYS_readahead,
    // Memory
    libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk,
    libc::SYS_msync, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_munlock, libc::SYS_membarrier,
    libc::SYS_pkey_alloc, libc::SYS_pkey_free, libc::SYS_pkey_mprotect,
    // Processes and threads; clone stands among the rules, clone3 hides its flags from any filter
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4, libc::SYS_waitid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getpgid, libc::SYS_setpgid, libc::SYS_getsid,
    libc::SYS_setsid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid,
    libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid,
    libc::SYS_setregid, libc::SYS_setresuid, libc::SYS_setresgid, libc::SYS_setgroups, libc::SYS_capget,
    libc::SYS_prctl, libc::SYS_set_tid_address, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq,
    libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_prlimit64, libc::SYS_getrusage, libc::SYS_times,
    // Not to set it: who gives way to all others looks as if the host did not run it.
    libc::SYS_getpriority, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min, libc::SYS_getcpu, libc::SYS_uname,
    libc::SYS_sysinfo, libc::SYS_getrandom, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal,
    // Landlock is a promise to do less
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self,
    // Signals and time
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigqueueinfo, libc::SYS_sigaltstack,
    libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_restart_syscall, libc::SYS_signalfd4,
    libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime, libc::SYS_clock_getres,
    libc::SYS_gettimeofday, libc::SYS_getitimer, libc::SYS_setitimer, libc::SYS_timer_create,
    libc::SYS_timer_settime, libc::SYS_timer_gettime, libc::SYS_timer_getoverrun, libc::SYS_timer_delete,
    libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
    // Waiting
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    // Local sockets; making one stands among the rules
    libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4, libc::SYS_connect, libc::SYS_getsockname,
    libc::SYS_getpeername, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_sendto, libc::SYS_recvfrom,
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg, libc::SYS_shutdown,
];

/// What newer architectures have left out.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[i64] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat, libc::SYS_link,
    libc::SYS_symlink, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes,
    libc::SYS_futimesat, libc::SYS_getdents, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_signalfd, libc::SYS_inotify_init,
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_alarm,
    libc::SYS_pause, libc::SYS_time, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[libc::SYS_renameat];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_out_of_the_sandbox_is_no_call_of_it() {
        let rules = rules().unwrap();
        for call in [
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_clone3,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_memfd_create,
            libc::SYS_shmget,
            libc::SYS_msgget,
            libc::SYS_process_vm_readv,
            libc::SYS_open_by_handle_at,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_personality,
            libc::SYS_fsopen,
            libc::SYS_move_mount,
        ] {
            assert!(!rules.contains_key(&call), "system call {call}");
        }
        for conditional in [libc::SYS_clone, libc::SYS_socket, libc::SYS_socketpair, libc::SYS_ioctl] {
            assert!(
                !rules.get(&conditional).unwrap().is_empty(),
                "system call {conditional}"
            );
        }
    }

    #[test]
    fn the_filter_is_whole_instructions_within_the_kernels_bound() {
        let filter = filter().unwrap();
        assert_eq!(filter.len() % 8, 0);
        assert!(filter.len() / 8 < 4096, "{} instructions", filter.len() / 8);
    }
}
