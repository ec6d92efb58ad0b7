#include "bench/launch_env.h"

#include "bench/failure.h"
#include "support/catch.h"

namespace ronde::bench {
namespace {

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

std::string refusal(const Environment& mine, const std::vector<Ancestor>& ancestors = {}) {
  try {
    detect_launch(mine, ancestors);
  } catch (const TestFailure& failure) {
    CHECK(failure.code() == Exit::invalid_usage);
    return failure.what();
  }
  return "";
}

const Environment kShell = {{"HOME", "/root"}};
const Ancestor kShellAncestor{100, 5, kShell};

Environment ronde_run(int rank, int size) {
  return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", "12345"}};
}

Environment open_mpi(int rank, int size, int on_host) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(on_host)},
          {"PMIX_NAMESPACE", "77"},
          {"PMIX_RANK", std::to_string(rank)}};
}

Environment mpich(int rank, int size, int on_host) {
  return {{"PMI_RANK", std::to_string(rank)}, {"PMI_SIZE", std::to_string(size)}, {"MPI_LOCALNRANKS", std::to_string(on_host)}};
}

Environment slurm(int rank, int size, int hosts) {
  return {{"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_NTASKS", std::to_string(size)},
          {"SLURM_NNODES", std::to_string(hosts)},
          {"SLURM_JOB_ID", "9"},
          {"SLURM_STEP_ID", "1"}};
}

}  // namespace

TEST_CASE("launch: no variables, one process", "[bench]") {
  const Launch launch = detect_launch(kShell, {kShellAncestor});
  CHECK(launch.rank == 0);
  CHECK(launch.size == 1);
  CHECK(launch.launcher.empty());
  // An allocation's shell knows a number of tasks and is none of them.
  CHECK(detect_launch({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "9"}}, {}).size == 1);
}

TEST_CASE("launch: each launcher's variables", "[bench]") {
  for (const Environment& mine : {ronde_run(2, 4), open_mpi(2, 4, 4), mpich(2, 4, 4), slurm(2, 4, 1)}) {
    const Launch launch = detect_launch(mine, {kShellAncestor});
    INFO(launch.launcher);
    CHECK(launch.rank == 2);
    CHECK(launch.size == 4);
    CHECK(launch.place.host.empty());
    CHECK(!launch.place.name.empty());
  }
  CHECK(detect_launch({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}}, {}).size == 2);
}

TEST_CASE("launch: ranks of one job meet, two jobs do not", "[bench]") {
  const auto name = [](const Environment& mine, int launcher_pid) {
    return detect_launch(mine, {Ancestor{launcher_pid, 1, kShell}}).place.name;
  };
  CHECK(name(open_mpi(0, 4, 4), 10) == name(open_mpi(3, 4, 4), 11));
  CHECK(name(slurm(0, 4, 1), 10) == name(slurm(3, 4, 1), 11));
  CHECK(name(ronde_run(0, 4), 10) == name(ronde_run(3, 4), 11));
  // MPICH has no name for the job on one host: the launcher tells.
  CHECK(name(mpich(0, 4, 4), 10) == name(mpich(3, 4, 4), 10));
  CHECK(name(mpich(0, 4, 4), 10) != name(mpich(0, 4, 4), 11));
  CHECK(name(slurm(0, 4, 1), 10) != name(with(slurm(0, 4, 1), {{"SLURM_STEP_ID", "2"}}), 10));
  CHECK(name(ronde_run(0, 4), 10) != name(with(ronde_run(0, 4), {{"MASTER_PORT", "12346"}}), 10));
  // A shell between launcher and benchmark has the variables too, and is not the launcher.
  const Environment mine = with(kShell, mpich(1, 4, 4));
  const Launch through_shell = detect_launch(mine, {Ancestor{50, 9, mine}, Ancestor{10, 1, kShell}});
  CHECK(through_shell.place.name == name(with(kShell, mpich(0, 4, 4)), 10));
}

TEST_CASE("launch: several hosts need an address", "[bench]") {
  CHECK(test::contains(refusal(open_mpi(1, 4, 2)), "MASTER_ADDR"));
  CHECK(test::contains(refusal(slurm(1, 4, 2)), "several hosts"));
  const Environment master = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "2000"}};
  const Launch launch = detect_launch(with(open_mpi(1, 4, 2), master), {});
  CHECK(launch.place.host == "node1");
  CHECK(launch.place.port == 2000);
  CHECK(test::contains(refusal(with(open_mpi(1, 4, 2), {{"MASTER_ADDR", "node1"}})), "MASTER_PORT"));
  const Launch by_id = detect_launch(with(slurm(1, 4, 2), {{"NCCL_COMM_ID", "[fe80::1]:4000"}}), {});
  CHECK(by_id.place.host == "fe80::1");
  CHECK(by_id.place.port == 4001);
  // torchrun's agent holds the announced port.
  const Environment agent = {
      {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  CHECK(detect_launch(with(agent, master), {}).place.port == 2001);
  // Nothing but rank and size: the processes of one parent.
  CHECK(detect_launch({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {kShellAncestor}).place.host.empty());
}

TEST_CASE("launch: contradictions are errors that name both", "[bench]") {
  const std::string ranks = refusal(with(open_mpi(1, 4, 4), mpich(2, 4, 4)), {kShellAncestor});
  CHECK(test::contains(ranks, "OMPI_COMM_WORLD_RANK=1"));
  CHECK(test::contains(ranks, "PMI_RANK=2"));
  const std::string sizes = refusal(with(slurm(1, 4, 1), ronde_run(1, 2)), {kShellAncestor});
  CHECK(test::contains(sizes, "SLURM_NTASKS=4"));
  CHECK(test::contains(sizes, "WORLD_SIZE=2"));
  // srun --mpi=pmi2 sets both, and both say the same.
  CHECK(detect_launch(with(slurm(1, 4, 1), mpich(1, 4, 4)), {kShellAncestor}).rank == 1);
}

TEST_CASE("launch: half a pair is an error", "[bench]") {
  CHECK(test::contains(refusal({{"RANK", "1"}}), "RANK=1 is set, but WORLD_SIZE is not"));
  CHECK(test::contains(refusal({{"WORLD_SIZE", "2"}}), "WORLD_SIZE=2 is set, but RANK is not"));
  CHECK(test::contains(refusal({{"SLURM_PROCID", "1"}}), "SLURM_PROCID=1"));
  CHECK(test::contains(refusal({{"PMIX_RANK", "1"}}), "PMIX_RANK=1"));
  CHECK(test::contains(refusal(with(open_mpi(0, 2, 2), {{"RANK", "0"}})), "WORLD_SIZE is not"));
}

TEST_CASE("launch: numbers out of range are errors", "[bench]") {
  CHECK(test::contains(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), "makes no sense"));
  CHECK(test::contains(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}), "makes no sense"));
  CHECK(test::contains(refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "zero"}}), "makes no sense"));
}

TEST_CASE("launch: the innermost launcher counts", "[bench]") {
  // A Slurm batch script that runs mpirun: all processes inherit the script's task 0.
  const Environment batch = with(kShell, slurm(0, 8, 1));
  const Launch in_batch = detect_launch(with(batch, open_mpi(3, 4, 4)), {Ancestor{20, 2, batch}, Ancestor{10, 1, batch}});
  CHECK(in_batch.rank == 3);
  CHECK(in_batch.size == 4);
  CHECK(in_batch.launcher == "Open MPI");
  // ronde-run inside one process of an MPI job.
  const Environment outer = with(kShell, open_mpi(1, 2, 2));
  const Launch inner = detect_launch(with(outer, ronde_run(2, 3)), {Ancestor{20, 2, outer}, Ancestor{10, 1, kShell}});
  CHECK(inner.rank == 2);
  CHECK(inner.size == 3);
  // Half a pair of an outer level is nobody's business.
  const Environment stray = with(kShell, {{"WORLD_SIZE", "9"}});
  CHECK(detect_launch(with(stray, mpich(1, 2, 2)), {Ancestor{20, 2, stray}}).size == 2);
  // An ancestor that cannot be read decides nothing.
  CHECK(!refusal(with(batch, open_mpi(3, 4, 4)), {Ancestor{20, 2, std::nullopt}}).empty());
}

TEST_CASE("launch: this process has ancestors with environments", "[bench]") {
  const auto ancestors = own_ancestors();
  REQUIRE(!ancestors.empty());
  CHECK(ancestors[0].start_time > 0);
  CHECK(own_environment().size() > 0);
}

}  // namespace ronde::bench
