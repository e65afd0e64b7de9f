#include "runtime/channels.h"

#include <stdlib.h>
#include <string.h>

uint32_t gal_group_ranks(const gal_program *program, gal_group group, uint32_t device, uint32_t *ranks)
{
    const uint32_t stage_devices = program->device_count;
    const uint32_t rank = program->stage * stage_devices + device;
    const uint32_t world = program->stage_count * stage_devices;
    uint32_t count = 0;
    switch (group) {
    case GAL_GROUP_NEXT:
        GAL_ASSERT(program->stage_count > 1);
        ranks[0] = rank;
        ranks[1] = (rank + stage_devices) % world;
        return 2;
    case GAL_GROUP_PREVIOUS:
        GAL_ASSERT(program->stage_count > 1);
        ranks[0] = (rank + world - stage_devices) % world;
        ranks[1] = rank;
        return 2;
    case GAL_GROUP_TIED:
    case GAL_GROUP_ENCODER_BIAS:
    case GAL_GROUP_DECODER_BIAS:
        for (uint32_t s = 0; s < program->stage_count; s++) {
            if (gal_stage_set_has(&program->holders[gal_shared_of_group(group)], s)) {
                ranks[count++] = s * stage_devices + device;
            }
        }
        return count;
    case GAL_GROUP_WORLD:
        for (; count < world; count++) {
            ranks[count] = count;
        }
        return count;
    default:
        count = gal_group_members(&program->atoms, group, device, ranks);
        for (uint32_t i = 0; i < count; i++) {
            ranks[i] += program->stage * stage_devices;
        }
        return count;
    }
}

/* Both ends of a transfer name its channel by the sender's stream. */
static uint32_t channel_stream(uint32_t stream)
{
    switch (stream) {
    case GAL_STREAM_RECEIVE_FORWARD:
        return GAL_STREAM_SEND_FORWARD;
    case GAL_STREAM_RECEIVE_BACKWARD:
        return GAL_STREAM_SEND_BACKWARD;
    default:
        return stream;
    }
}

static uint32_t transfers_of(uint8_t op)
{
    switch (op) {
    case GAL_OP_SEND:
        return GAL_TRANSFER_SENDS;
    case GAL_OP_RECEIVE:
        return GAL_TRANSFER_RECEIVES;
    default:
        return 0;
    }
}

/* Ranks of one stage have one program, and so the same buffers; but a view of one may begin elsewhere on each. */
static bool lies_alike(const gal_program *program, const gal_instruction *instruction, const uint32_t *ranks,
                       uint32_t rank_count)
{
    const uint32_t devices = program->device_count;
    bool alike = instruction->op != GAL_OP_SEND && instruction->op != GAL_OP_RECEIVE;
    for (uint32_t r = 0; r < rank_count && alike; r++) {
        alike = ranks[r] / devices == program->stage;
        for (uint32_t o = 0; o < instruction->operand_count && alike; o++) {
            const gal_operand *operand = &program->operand[instruction->first_operand + o];
            alike = gal_operand_offset(program, operand, ranks[r] % devices, 0) ==
                    gal_operand_offset(program, operand, ranks[0] % devices, 0);
        }
    }
    return alike;
}

static uint32_t find(const gal_channels *channels, gal_group group, uint32_t stream)
{
    for (uint32_t i = 0; i < channels->count; i++) {
        if (channels->group[i] == group && channels->spec[i].stream == stream) {
            return i;
        }
    }
    return GAL_NO_CHANNEL;
}

/* Distinct (group, stream) pairs of the collectives, without their members. */
static gal_code list_pairs(const gal_program *program, uint32_t device, uint32_t *members, gal_channels *channels,
                           gal_error *err)
{
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *instruction = &program->instruction[i];
        const uint32_t member_count =
            gal_op_is_collective[instruction->op] ? gal_group_ranks(program, instruction->group, device, members) : 0;
        channels->of_instruction[i] = GAL_NO_CHANNEL;
        if (member_count < 2) {
            continue;
        }
        const uint32_t stream = channel_stream(instruction->stream);
        uint32_t index = find(channels, instruction->group, stream);
        if (index == GAL_NO_CHANNEL) {
            if (channels->count == capacity) {
                capacity = capacity == 0 ? 16 : 2 * capacity;
                gal_channel_spec *spec = realloc(channels->spec, capacity * sizeof *spec);
                channels->spec = spec != NULL ? spec : channels->spec;
                gal_group *group = realloc(channels->group, capacity * sizeof *group);
                channels->group = group != NULL ? group : channels->group;
                if (spec == NULL || group == NULL) {
                    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: channels");
                }
            }
            index = channels->count++;
            channels->group[index] = instruction->group;
            channels->spec[index] = (gal_channel_spec){.stream = stream, .alike = true};
        }
        channels->of_instruction[i] = index;
        channels->spec[index].transfers |= transfers_of(instruction->op);
        channels->spec[index].alike =
            channels->spec[index].alike && lies_alike(program, instruction, members, member_count);
    }
    return GAL_OK;
}

static gal_code list_members(const gal_program *program, uint32_t device, uint32_t *members, gal_channels *channels,
                             gal_error *err)
{
    size_t total = 0;
    for (uint32_t i = 0; i < channels->count; i++) {
        channels->spec[i].rank_count = gal_group_ranks(program, channels->group[i], device, members);
        total += channels->spec[i].rank_count;
    }
    channels->ranks = malloc((total + 1) * sizeof *channels->ranks);
    if (channels->ranks == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: channels");
    }
    uint32_t *next = channels->ranks;
    for (uint32_t i = 0; i < channels->count; i++) {
        const uint32_t count = gal_group_ranks(program, channels->group[i], device, members);
        memcpy(next, members, count * sizeof *next);
        channels->spec[i].ranks = next;
        next += count;
    }
    return GAL_OK;
}

gal_code gal_channels_of(const gal_program *program, uint32_t device, gal_channels *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_channels channels = {0};
    const size_t world_size = (size_t)program->stage_count * program->device_count;
    uint32_t *members = malloc((world_size + 2) * sizeof *members);
    channels.of_instruction = malloc(((size_t)program->instruction_count + 1) * sizeof *channels.of_instruction);
    if (members == NULL || channels.of_instruction == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: channels");
        goto cleanup;
    }
    GAL_TRY(list_pairs(program, device, members, &channels, err));
    GAL_TRY(list_members(program, device, members, &channels, err));
    *out = channels;
    memset(&channels, 0, sizeof channels);
cleanup:
    gal_channels_free(&channels);
    free(members);
    return code;
}

void gal_channels_free(gal_channels *channels)
{
    free(channels->spec);
    free(channels->of_instruction);
    free(channels->ranks);
    free(channels->group);
    memset(channels, 0, sizeof *channels);
}
